// Package readmetest holds README.zh-CN.md to README.md: the same sections, the same
// commands byte for byte but for comments in Chinese, the same tables and links. Whether the
// translation is a good one, no test can say. TestE2EReadme and TestE2EChinesePages in scripts/e2e run the commands.
package readmetest
