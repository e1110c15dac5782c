// Package crawler is a small crawler of one site, written as a user of Millrace would write it: it
// imports nothing of Millrace, reads its parameters from an environment variable, and speaks in
// lines of JSON on its standard input and output. Without Millrace it is a command like any other.
//
// It goes breadth first, one depth at a time, so that the same site gives the same pages at the
// same depths with any number of workers. It never leaves the host that it started on, obeys
// robots.txt, and reads no address twice.
//
// It retries nothing: a page that fails becomes a record with an error, and the crawl goes on.
// Whether a failed crawl is retried is the scheduler's decision.
//
// It brings a small site to try the crawler on: pages that link to one another, and what goes
// wrong on real sites: a broken link, a page that has moved, one that robots.txt closes, a slow
// one, and files that are no pages.
package crawler
