package notices

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nicholas-fedor/shoutrrr"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// Sender sends notices: its [Sender.Send] is the handler of their tasks.
type Sender struct {
	Config *Config
	// Look lets it look at the present.
	Look func(ctx context.Context, look func(context.Context, *answers.Sight) error) error
	// Wait waits until what Look shows reflects a sequence: another server may have planned the notice.
	Wait func(ctx context.Context, seq uint64) error
	// Publish gives a message to the NATS server, and returns when that has it.
	Publish func(ctx context.Context, subject string, data []byte) error
	// Submit makes the task of a command; that there is one already is no error.
	Submit func(ctx context.Context, s birth.Submission) error
	// Remember has the log know steps of the notice's task, of which it has first, before Send goes on.
	Remember func(ctx context.Context, first int, steps []task.Step) error
	// Link is the address of the pages; "" if they are not served.
	Link string
}

// patience bounds one attempt to send.
const patience = 20 * time.Second

// Send sends the notice of a task. It may send it twice, if the server that does it is killed, and then with the
// same id. An error says why it could not, without the secrets of the target.
func (s *Sender) Send(ctx context.Context, t task.Task) error {
	var n Notice
	if err := json.Unmarshal(t.Params, &n); err != nil {
		return err
	}
	to := s.Config.Targets[n.To]
	if to == nil {
		return fmt.Errorf("the servers have no target %q: it belongs into the file of the setting notify", n.To)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.Wait(ctx, t.Epoch); err != nil {
		return err
	}
	m, err := s.compose(ctx, t.ID, &n, t.Attempt == 1)
	if err != nil || m == nil {
		return err
	}
	if err := s.allow(ctx, &t, to, m); err != nil {
		return err
	}
	to.fill(m)
	return m.hide(s.deliver(ctx, to, m))
}

func (s *Sender) deliver(ctx context.Context, to *Target, m *Message) error {
	switch {
	case to.Webhook != nil:
		return to.post(ctx, m)
	case to.Subject != "":
		body, err := m.body(false)
		if err != nil {
			return err
		}
		return s.Publish(ctx, to.Subject, body)
	case len(to.Command) > 0:
		return s.start(ctx, to, m)
	case to.Mail != nil:
		return s.mail(ctx, to.Mail, m)
	}
	address, err := to.Service.read()
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return shout(ctx, address, m.Title, m.Text)
}

// mailStep begins the name of the step by which the log knows that an address has a mail.
const mailStep = "mailed "

// mail sends a message to each address. If there are several, the log knows who has it: what the server refuses for
// one of them, again and again, gives the others no second mail.
func (s *Sender) mail(ctx context.Context, to *Mail, m *Message) error {
	var faults []error
	title, text := mime.QEncoding.Encode("utf-8", m.Title), folded(m.Text)
	for _, who := range to.To {
		step := mailStep + value.Digest([]byte(who))
		if slices.ContainsFunc(m.steps, func(is task.Step) bool { return is.Name == step }) {
			continue
		}
		address, err := to.url(who)
		if err != nil {
			return fmt.Errorf("mail.password: %w", err)
		}
		if err = shout(ctx, address, title, text); err == nil && len(to.To) > 1 {
			err = s.remember(ctx, m, step, nil)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// mailLine bounds the lines of a mail, in bytes: servers refuse more than 998.
const mailLine = 900

// folded is a text without lines that mail servers refuse.
func folded(text string) string {
	var b strings.Builder
	n := 0
	for _, c := range text {
		if n += utf8.RuneLen(c); n > mailLine && c != '\n' {
			b.WriteByte('\n')
			n = utf8.RuneLen(c)
		}
		if b.WriteRune(c); c == '\n' {
			n = 0
		}
	}
	return b.String()
}

// start makes the task of a command. Its id follows from the notice's, so a second one is the same.
func (s *Sender) start(ctx context.Context, to *Target, m *Message) error {
	body, err := m.body(false)
	if err != nil {
		return err
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(body, &params); err != nil {
		return err
	}
	spec := &job.Spec{Run: &job.Run{Argv: to.Command, ParamsEnv: true}, Retry: job.Retry{Max: 3}, Timeout: job.Timeout{Run: value.Duration(10 * time.Minute)}}
	return s.Submit(ctx, birth.Submission{ID: task.DerivedID(m.ID, "command\x00"+string(m.ID)), Spec: spec, Params: params, Queue: to.Queue, Title: value.Cut("tell: "+m.Title, 150)})
}

// hook asks webhooks. It follows no redirect, for the operator has named the address, and reuses no
// connection, so one that hangs holds nothing.
var hook = &http.Client{
	Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: patience / 2}).DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       patience,
}

// answerBytes is how much of an answer is read.
const answerBytes = 300

// post sends a message to a webhook. With a secret, the header Millrace-Signature is t=SECONDS,v1=HEX: the
// HMAC-SHA256 of SECONDS, a dot and the body.
func (t *Target) post(ctx context.Context, m *Message) error {
	address, err := t.Webhook.read()
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	secret, err := t.Secret.read()
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	body, err := m.body(t.Slack)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return errors.New("webhook is no URL")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "millrace")
	r.Header.Set("Millrace-Notice", string(m.ID))
	if secret != "" {
		at := fmt.Sprint(m.signed.Unix())
		r.Header.Set("Millrace-Signature", "t="+at+",v1="+Sign(secret, at, body))
	}
	answer, err := hook.Do(r)
	if err != nil {
		return conceal(err, address)
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(answer.Body, 2*answerBytes)) // a secret at the end is cut off below
	if answer.StatusCode/100 != 2 {
		err := m.hide(fmt.Errorf("the webhook answers %s: %q", answer.Status, said))
		return conceal(errors.New(value.Cut(err.Error(), answerBytes)), address)
	}
	return nil
}

// Sign is the signature of a webhook's body at a second of Unix time.
func Sign(secret, at string, body []byte) string {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(at + "."))
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil))
}

// shout sends a text by a service of shoutrrr. What does not end in time is left behind.
func shout(ctx context.Context, address, title, text string) error {
	sent := make(chan error, 1)
	go func() {
		sender, err := shoutrrr.CreateSender(address)
		if err != nil {
			sent <- err
			return
		}
		sent <- errors.Join(sender.Send(text, &types.Params{"title": title})...)
	}()
	select {
	case err := <-sent:
		return conceal(err, address)
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v", patience)
	}
}

// conceal is an error without an address, and without the parts of it that may be secrets: it becomes a fact,
// which everybody can read who reads the log.
func conceal(err error, address string) error {
	if err == nil {
		return nil
	}
	if is, ok := errors.AsType[*url.Error](err); ok {
		err = is.Err
	}
	text := strings.ReplaceAll(err.Error(), address, "(the address)")
	if u, bad := url.Parse(address); bad == nil {
		parts := append(strings.Split(u.Path, "/"), strings.FieldsFunc(u.RawQuery, func(c rune) bool { return c == '&' || c == '=' })...)
		if password, ok := u.User.Password(); ok {
			parts = append(parts, password, url.QueryEscape(password), url.PathEscape(password))
		}
		for _, part := range append(parts, u.User.Username()) {
			if len(part) >= 6 {
				text = strings.ReplaceAll(text, part, "…")
			}
		}
	}
	return errors.New(value.Cut(text, 2*lineBytes))
}

// stands tells whether what a notice tells needs a person still, if it is of that kind.
func stands(ctx context.Context, s *answers.Sight, n *Notice) (bool, error) {
	needs, err := s.Matters(ctx)
	if err != nil || n.Others || needs.More > 0 {
		return true, err
	}
	of := false
	for kind, told := range kindOf {
		for i := range needs.Matters {
			if m := &needs.Matters[i]; told == n.Kind && m.Kind == kind && m.ID == cmp.Or(string(n.Task), n.About) {
				return true, nil
			}
		}
		of = of || told == n.Kind
	}
	return !of, nil
}

// compose makes the message of a notice; nil if nothing is left to tell. At the first attempt that is so, too, if
// meanwhile somebody has acted, or a node has come back.
func (s *Sender) compose(ctx context.Context, id task.ID, n *Notice, first bool) (m *Message, err error) {
	err = s.Look(ctx, func(ctx context.Context, sight *answers.Sight) error {
		if first {
			if is, err := stands(ctx, sight, n); err != nil || !is {
				return err
			}
		}
		m = &Message{ID: id, Kind: n.Kind, Job: oneLine(n.About), What: oneLine(n.What), Task: n.Task, Reason: n.Reason, signed: sight.Now, to: n.To}
		if n.Kind == Failure {
			if err := s.count(ctx, sight, n, m); err != nil || m.Count == 0 {
				m = nil
				return err
			}
		}
		if m.Task != "" {
			if err := s.describe(ctx, sight, m); err != nil {
				return err
			}
		}
		if link := strings.TrimSuffix(s.Link, "/"); link != "" {
			if m.Link = link + "/"; m.Task != "" {
				m.Link = link + "/tasks/" + string(m.Task)
			}
		}
		if n.Others {
			m.of = nil
		}
		m.Title = m.title(n)
		return nil
	})
	return m, err
}

// looked is how many failures are counted at most.
const looked = 20_000

// count counts the failures of a notice, and finds the last one and the child of that which failed last.
func (s *Sender) count(ctx context.Context, sight *answers.Sight, n *Notice, m *Message) error {
	failed, err := lastFailed(ctx, sight, looked, func(t *task.Task) bool { return t.EndedAt.Before(n.From) })
	m.Task, m.Partly, m.From = "", len(failed) == looked, n.From
	for i := range failed {
		t := &failed[i]
		switch {
		case m.printed == "" && m.Task != "" && t.Parent == m.Task:
			m.printed, m.Exit = t.ID, t.Exit
		case t.EndedAt.Before(n.From) || !tells(t) || !n.Others && (t.What() != n.About || t.Reason != n.Reason || view.Alike(t.Message) != n.Cause):
		default:
			if m.Count++; m.Count == 1 {
				m.Task = t.ID
			}
		}
	}
	return err
}

// describe adds what is known of a message's task.
func (s *Sender) describe(ctx context.Context, sight *answers.Sight, m *Message) error {
	is, err := sight.Get(ctx, view.Task(m.Task))
	if err != nil || is.Task == nil {
		return err
	}
	t := is.Task
	m.of = t
	m.Node, m.Attempts, m.Cause, m.At = t.Node, t.Attempt, value.Cut(oneLine(view.Flat(t.Message)), 2*lineBytes), t.Since
	if t.Exit != nil {
		m.Exit = t.Exit
	}
	if m.Kind == Recovery || m.Kind == Waiting || m.Kind == Overdue {
		return nil
	}
	m.Lines, err = answers.LastLines(ctx, sight.Log, cmp.Or(m.printed, m.Task))
	for i := range m.Lines {
		m.Lines[i] = value.Printable(m.Lines[i])
	}
	return err
}
