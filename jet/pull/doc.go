// Package pull asks consumers of a JetStream server for messages: never for more than their owner waits for, and again where
// a request was lost.
package pull
