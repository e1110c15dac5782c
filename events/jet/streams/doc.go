// Package streams defines the layout of Millrace's streams and buckets and how much room each has,
// makes them, and makes deleted ones again. It does not know their content.
package streams
