// Package deploytest holds what is in deploy/, docs/operations.md and docs/running.md to the sources
// they are about: names that one file gives and another uses, ports, paths, settings,
// and what the programs that read the files say of them. Its tests need none of
// these programs and skip what is missing.
//
// Each check gives its complaints, so that the tests can also change a file and see
// that the check notices.
package deploytest
