package notices

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// A link in a notice is a permission: whoever has it may do one thing to one task, once, without a login. Before a
// notice goes out the log learns a hash of its links' secret, as a step of the notice's task. So all servers know
// the link, whoever reads the log cannot make one, and none is valid that no notice had.

// linkFor is for how long a link is valid, and linkStep the name of the step.
const (
	linkFor  = 7 * 24 * time.Hour
	linkStep = "links"
)

// Reasons for which a link does nothing.
var (
	ErrNoLink   = errors.New("no notice had this link")
	ErrLinkOver = errors.New("the link is too old")
)

// Action is something that a link does.
type Action struct {
	// Do is "approve", "reject" or "retry", and Link the address of a page that asks before it does so.
	Do   string `json:"do"`
	Link string `json:"link"`

	slack bool
}

// String is the action as a line of a text.
func (a Action) String() string {
	if a.slack {
		return "<" + a.Link + "|" + a.label() + ">"
	}
	return a.label() + ": " + a.Link
}

func (a Action) label() string { return strings.ToUpper(a.Do[:1]) + a.Do[1:] }

// Permit is what the links of a notice allow, as the log has it.
type Permit struct {
	// Task is what they act on, as its fact Seq left it. They hold as long as it stays in that life, and at that attempt.
	Task  task.ID `json:"task"`
	Seq   uint64  `json:"seq"`
	Life  uint64  `json:"life,omitempty"`
	Epoch uint64  `json:"epoch,omitempty"`
	// Do are the words of its links, as in [Action].
	Do []string `json:"do"`
	// Hash is that of the secret.
	Hash string `json:"hash"`

	// By is the name under which they act: that of who was told. Until is when they end.
	By    string    `json:"-"`
	Until time.Time `json:"-"`
}

// newPermit is what whoever is told of a kind of notice about a task may do; nothing if Do is empty.
func newPermit(kind, to string, t *task.Task) *Permit {
	p := &Permit{Task: t.ID, Seq: t.Seq, Life: t.Life, Epoch: t.Epoch, By: actor(to)}
	switch {
	case kind == Waiting && t.AwaitsSignal() && t.Signal().May(p.By) == nil:
		p.Do = []string{"approve", "reject"}
	case kind == Failure && (t.State == task.Error || t.State == task.Abnormal):
		p.Do = []string{"retry"}
	}
	return p
}

// actor is under which name the log has what a link of a target did.
func actor(to string) string { return "notice:" + to }

// Holds tells whether a task still is as it was when people were told that this can be done.
func (p *Permit) Holds(t *task.Task) bool {
	if t.Life != p.Life || t.Epoch != p.Epoch {
		return false
	}
	if p.Do[0] == "retry" {
		return t.State == task.Error || t.State == task.Abnormal
	}
	return t.AwaitsSignal()
}

// LinkOf takes the last part of a link's address apart: the task of its notice, and its secret.
func LinkOf(key string) (notice task.ID, secret string, err error) {
	id, secret, _ := strings.Cut(key, "-")
	if notice, err = task.ParseID(id); err != nil || len(secret) < 26 || !notice.Derived() {
		return "", "", ErrNoLink
	}
	return notice, secret, nil
}

// Opens returns what a link that somebody shows allows, by the task of its notice. The error wraps [ErrNoLink] or
// [ErrLinkOver].
func Opens(notice *task.Task, do, secret string, now time.Time) (*Permit, error) {
	if notice.Spec == nil || notice.Spec.Handler != job.NoticeHandler || notice.QueueName() != job.NoticeQueue || notice.Durable == nil {
		return nil, ErrNoLink
	}
	var n Notice
	if err := json.Unmarshal(notice.ParamsObject(), &n); err != nil {
		return nil, ErrNoLink
	}
	hash := value.Digest([]byte(secret))
	for i := range notice.Durable.Steps {
		s := &notice.Durable.Steps[i]
		p := &Permit{By: actor(n.To), Until: s.At.Add(linkFor)}
		if s.Name != linkStep || json.Unmarshal(s.Result, p) != nil || subtle.ConstantTimeCompare([]byte(p.Hash), []byte(hash)) == 0 {
			continue
		}
		for _, may := range p.Do {
			if may != do {
				continue
			}
			if !now.Before(p.Until) {
				return p, ErrLinkOver
			}
			return p, nil
		}
	}
	return nil, ErrNoLink
}

// allow adds links to a message, after the log has learned of them.
func (s *Sender) allow(ctx context.Context, notice *task.Task, to *Target, m *Message) error {
	if d := notice.Durable; d != nil {
		m.steps = slices.Clone(d.Steps[:d.Done()])
	}
	if !to.Buttons || m.of == nil || s.Link == "" || !notice.ID.Derived() {
		return nil
	}
	p := newPermit(m.Kind, m.to, m.of)
	if len(p.Do) == 0 {
		return nil
	}
	m.secret = rand.Text()
	p.Hash = value.Digest([]byte(m.secret))
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	for _, do := range p.Do {
		m.Actions = append(m.Actions, Action{do, strings.TrimSuffix(s.Link, "/") + "/act/" + do + "/" + string(notice.ID) + "-" + m.secret, to.Slack})
	}
	return s.remember(ctx, m, linkStep, text)
}

// remember has the log know a step of a notice.
func (s *Sender) remember(ctx context.Context, m *Message, name string, result []byte) error {
	step := task.Step{Name: name, Kind: task.StepDo, Result: result, At: m.signed}
	err := s.Remember(ctx, len(m.steps), []task.Step{step})
	if err == nil {
		m.steps = append(m.steps, step)
	}
	return err
}

// hide takes the secret of the links out of an error, which becomes a fact.
func (m *Message) hide(err error) error {
	if err == nil || m.secret == "" || !strings.Contains(err.Error(), m.secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), m.secret, "…"))
}
