// Package proxy is a TCP proxy that misbehaves on request: it cuts connections,
// holds what they carry back, slows them down, or keeps one of their ends alive
// when the other is gone. It knows nothing of what it carries.
package proxy
