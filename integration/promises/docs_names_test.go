package promises

import (
	"millrace/integration/harness"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
)

// names are the streams, buckets and consumers of a server, and the subjects of
// the service.
type names struct {
	p       *harness.Place
	js      jetstream.JetStream
	known   map[string]bool
	service map[string]bool
}

func namesOnServer(p *harness.Place) *names {
	p.Helper()
	js := p.JetStream()
	n := &names{p: p, js: js, known: map[string]bool{}, service: map[string]bool{}}
	streams := js.ListStreams(p.Context())
	for info := range streams.Info() {
		name := info.Config.Name
		n.known[name] = true
		n.known[strings.TrimPrefix(name, "KV_")] = true
		stream, err := js.Stream(p.Context(), name)
		if err != nil {
			p.Fatal(err)
		}
		for consumer := range stream.ConsumerNames(p.Context()).Name() {
			n.known[consumer] = true
		}
	}
	if err := streams.Err(); err != nil {
		p.Fatal(err)
	}
	for _, e := range harness.Ask[micro.Info](p, js.Conn(), "$SRV.INFO.millrace", "").Endpoints {
		n.service[strings.Replace(e.Subject, "*", "ada", 1)] = true // the pages call the caller ada
	}
	return n
}

var (
	subjectWord = regexp.MustCompile(`\bmr\.[A-Za-z0-9_.*>-]+`)
	nameWord    = regexp.MustCompile(`\b(?:KV_)?MR_[A-Z_]+\b|\bqueue_[A-Za-z0-9_-]+`)
)

// unknownTo lists the names in a line that the server does not have.
func (n *names) unknownTo(line string) []string {
	var unknown []string
	for _, subject := range subjectWord.FindAllString(line, -1) {
		if !n.hasSubject(strings.TrimRight(subject, ".")) {
			unknown = append(unknown, "subject "+subject)
		}
	}
	for _, name := range nameWord.FindAllString(line, -1) {
		if !n.known[name] {
			unknown = append(unknown, "stream, bucket or consumer "+name)
		}
	}
	return unknown
}

func (n *names) hasSubject(subject string) bool {
	switch {
	case strings.HasPrefix(subject, "mr.api."):
		pattern := regexp.QuoteMeta(subject)
		pattern = strings.NewReplacer(`\*`, `[^.]+`, `>`, `.+`).Replace(pattern)
		for s := range n.service {
			if regexp.MustCompile("^" + pattern + "$").MatchString(s) {
				return true
			}
		}
		return false
	case strings.HasPrefix(subject, "mr.hint."), strings.HasPrefix(subject, "mr.ping."), subject == "mr.>": // never stored; everything
		return true
	}
	_, err := n.js.StreamNameBySubject(n.p.Context(), subject)
	return err == nil
}

var (
	requestLine = regexp.MustCompile(`^nats req(?:uest)? (mr\.(?:api|ping)\.\S+) '([^']*)'`)
	pubLine     = regexp.MustCompile(`^nats pub -J (\S+) -H ([^:]+):(\S+) '([^']*)'`)
)

// send runs a line for the nats command line if it is a request or stores a fact.
func (n *names) send(c typed) {
	n.p.Helper()
	if m := pubLine.FindStringSubmatch(c.text); m != nil {
		_, err := n.js.PublishMsg(n.p.Context(), &nats.Msg{Subject: m[1], Header: nats.Header{m[2]: {m[3]}}, Data: []byte(m[4])})
		if err != nil {
			n.p.Errorf("line %d: %s: %v", c.line, c.text, err)
		}
	}
	if m := requestLine.FindStringSubmatch(c.text); m != nil {
		reply, err := n.js.Conn().Request(m[1], []byte(m[2]), harness.Patience)
		if err != nil {
			n.p.Fatalf("line %d: %s: %v", c.line, c.text, err)
		}
		// The tasks of a page are not there.
		if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" && code != "404" {
			n.p.Errorf("line %d: %s\n%s %s", c.line, c.text, code, reply.Header.Get(micro.ErrorHeader))
		}
	}
}
