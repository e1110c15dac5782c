// Package contents keeps file contents, versions of bundles and the artifacts of attempts in the
// stream MR_FILES, and removes those that are no longer needed.
package contents
