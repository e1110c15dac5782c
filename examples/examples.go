// Package examples holds the job file of an example, so that the demo can show it at work.
package examples

import _ "embed"

// Crawl is the job file of the crawler in examples/crawl.
//
//go:embed crawl/crawl.yaml
var Crawl []byte
