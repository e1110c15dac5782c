package crawler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// output is what the program prints: messages to Millrace and lines for people, which share the
// standard output. It writes a line with one call, so that no line is torn. Use it from one
// goroutine.
type output struct {
	stdout, stderr io.Writer
	key            string // by which Millrace tells messages from pages that are printed
	abort          func(cause error)
	err            error // the first failure to write a message
}

// send writes a message. If that fails, nothing can receive what the crawl finds, so the crawl
// ends.
func (o *output) send(typ string, payload any) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line) // one line, with its end
	encoder.SetEscapeHTML(false)      // addresses stay legible
	err := encoder.Encode(struct {
		Type    string `json:"type"`
		Key     string `json:"key,omitempty"`
		Payload any    `json:"payload"`
	}{typ, o.key, payload})
	if err != nil {
		o.end(err)
		return
	}
	o.write(line.Bytes())
}

func (o *output) write(line []byte) {
	if o.err != nil {
		return
	}
	if _, err := o.stdout.Write(line); err != nil {
		o.end(err)
	}
}

func (o *output) end(err error) {
	o.err = err
	o.abort(err)
}

// logf writes a line for people.
func (o *output) logf(format string, args ...any) {
	o.write(fmt.Appendf(nil, format+"\n", args...))
}

// warnf writes a warning for people.
func (o *output) warnf(format string, args ...any) {
	fmt.Fprintf(o.stderr, format+"\n", args...) // a failure cannot be reported anywhere
}

// status reports how far the crawl is; progress is from 0 to 1.
func (o *output) status(progress float64, format string, args ...any) {
	o.send("STATUS", struct {
		Message  string  `json:"message"`
		Progress float64 `json:"progress"`
	}{fmt.Sprintf(format, args...), progress})
}

// record sends the record of a page.
func (o *output) record(p *page) { o.send("INSERT_DATA", p) }

// fail says why the program ends without having done its work. Another attempt is worthwhile only
// after an error of the network.
func (o *output) fail(err error) {
	class := "task"
	_, network := errors.AsType[*networkError](err)
	if network {
		class = "network"
	}
	o.send("ERROR", struct {
		Message   string `json:"message"`
		Class     string `json:"class"`
		Retryable bool   `json:"retryable"`
	}{err.Error(), class, network})
	o.warnf("crawl: %v", err)
}

// networkError is a failure of a connection or a server, which may be gone later.
type networkError struct{ err error }

func (e *networkError) Error() string { return e.err.Error() }
func (e *networkError) Unwrap() error { return e.err }
