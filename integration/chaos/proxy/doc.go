// Package proxy is a TCP proxy that misbehaves on request: it cuts connections, delays what they
// carry, slows them down, or keeps one end alive when the other is gone. It does not interpret what
// it carries.
package proxy
