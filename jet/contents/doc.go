// Package contents keeps contents of files, versions of bundles and what attempts have left in the stream MR_FILES, and removes
// what nobody needs any more.
package contents
