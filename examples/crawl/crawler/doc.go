// Package crawler is a small crawler of one site, written as a user of Millrace
// would write it: it imports nothing of Millrace, reads its parameters from a
// variable of the environment and speaks in lines of JSON on its standard input
// and output. Without Millrace it is a command like any other.
//
// It goes breadth first and one depth at a time, so that the same site gives the
// same pages at the same depths whatever the number of workers. It never leaves
// the host it started on, keeps to robots.txt, and reads no address twice.
//
// Nothing is tried again: a page that fails is a record with an error, and the
// crawl goes on. What to do about a crawl that fails is the scheduler's business.
package crawler
