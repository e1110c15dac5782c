package publish

import (
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/jet/link"
)

// Message is a fact to be sent. Publishing copies it, so it is reused.
type Message struct {
	nats.Msg
	typ, last []string
	// Msg has one of these headers: filling a map for each message costs more than everything else
	// about it.
	plain, expecting nats.Header
}

var messages = sync.Pool{New: func() any {
	m := &Message{typ: []string{""}, last: []string{""}}
	m.plain = nats.Header{events.TypeHeader: m.typ}
	m.expecting = nats.Header{events.TypeHeader: m.typ, link.ExpectedHeader: m.last}
	m.Header = m.plain
	return m
}}

// NewMessage returns the message that stores a fact on a subject. The caller then calls Free.
func NewMessage(subject string, f *events.Fact) (*Message, error) {
	m := Blank(subject, f.Type)
	body, err := events.Encode(m.Data[:0], f)
	if err != nil {
		m.Free()
		return nil, err
	}
	m.Data = body
	return m, nil
}

// Blank returns a message without a body. The caller then calls Free.
func Blank(subject string, t events.Type) *Message {
	m := messages.Get().(*Message)
	m.Subject = subject
	m.typ[0] = string(t)
	return m
}

// Expect makes the server refuse the message unless last is the sequence of
// the subject's last message.
func (m *Message) Expect(last uint64) {
	m.last[0] = strconv.FormatUint(last, 10)
	m.Header = m.expecting
}

// Detach returns a copy that stays valid after Free.
func (m *Message) Detach() *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: cloneHeader(m.Header), Data: append([]byte(nil), m.Data...)}
}

// Free releases the message's memory for reuse.
func (m *Message) Free() {
	m.Header, m.Subject, m.Reply = m.plain, "", ""
	messages.Put(m)
}

func cloneHeader(h nats.Header) nats.Header {
	c := make(nats.Header, len(h))
	for k, v := range h {
		c[k] = append([]string(nil), v...)
	}
	return c
}
