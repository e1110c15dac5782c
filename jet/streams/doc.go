// Package streams says how the streams and buckets of Millrace are laid out and how much room each has, makes them, and
// makes again what was deleted. What lies in them it does not know.
package streams
