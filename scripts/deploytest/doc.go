// Package deploytest checks what is in deploy/ and the pages about operation: by the programs that read the
// files, such as Helm and systemd-analyze, and for names, ports and paths that one file gives and another uses.
// A program that is missing is skipped; make test-deploy builds those that can be built.
package deploytest
