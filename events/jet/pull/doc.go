// Package pull asks consumers of a JetStream server for messages: never for more than their owner
// wants, and again if a request was lost.
package pull
