// Package docs holds the documentation, so that each replica shows the runbook without internet,
// in the version that fits.
package docs

import "embed"

// Pages are the documents, by path from here: those in Chinese are in zh.
//
//go:embed *.md zh/*.md
var Pages embed.FS
