// Package readmetest holds README.zh-CN.md to README.md: the same sections, the same
// commands byte for byte, the same tables and links. Whether the translation is a good
// one, no test can say. TestE2EReadme in scripts/e2e runs the commands.
package readmetest
