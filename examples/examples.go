// Package examples holds the job files of the examples, so that the command
// line can show them at work.
package examples

import _ "embed"

// Crawl is the job file of the crawler in examples/crawl.
//
//go:embed crawl/crawl.yaml
var Crawl []byte

// DemoCalendars are the calendars of examples/demo, by which its jobs go.
//
//go:embed demo/calendars.yaml
var DemoCalendars []byte

// Demo are the job files of examples/demo, from which `millrace demo --keep` makes its tasks.
//
//go:embed demo/jobs.yaml
var Demo []byte
