// Package docs holds the documentation, so that the binary can show the runbook on a
// machine without internet, in the version that fits.
package docs

import "embed"

// Pages are the documents, by path from here: those in Chinese are in zh.
//
//go:embed *.md zh/*.md images/*.png
var Pages embed.FS
