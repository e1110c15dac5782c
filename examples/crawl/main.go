// Command crawl crawls a site and reports to Millrace by printing lines.
package main

import (
	"os"

	"millrace/examples/crawl/crawler"
)

func main() {
	os.Exit(crawler.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
