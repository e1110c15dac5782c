package notices

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/task"
	"millrace/task/value"
)

// Message is what a target is told. Templates name its fields.
type Message struct {
	// ID is that of the notice: one that comes twice has the same.
	ID task.ID `json:"id"`
	// Kind is one of [Kinds], or [Test]; Title says it in a line.
	Kind  string `json:"kind"`
	Title string `json:"title"`
	// Job names the job, or what a task without one does; or what else it is about.
	Job string `json:"job,omitempty"`
	// Count is how many tasks failed of this cause since From; at least so many if Partly.
	Count  int       `json:"count,omitempty"`
	Partly bool      `json:"partly,omitempty"`
	From   time.Time `json:"from,omitzero"`
	// Task, Node, Exit, Attempts, Reason, Cause and At are those of the last of them.
	Task     task.ID   `json:"task,omitempty"`
	Node     string    `json:"node,omitempty"`
	Exit     *int      `json:"exit,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Cause    string    `json:"cause,omitempty"`
	At       time.Time `json:"at,omitzero"`
	// Lines are the last that it printed, as [answers.LastLines] has them.
	Lines []string `json:"lines,omitempty"`
	// What says what to do.
	What string `json:"what,omitempty"`
	// Link leads to it on the pages; "" if those are not served.
	Link string `json:"link,omitempty"`
	// Actions are links that do something about it; none unless the target has buttons.
	Actions []Action `json:"actions,omitempty"`
	// Text is all of it, as the target's template has it.
	Text string `json:"text"`

	signed  time.Time // when a webhook is signed
	printed task.ID   // whose lines are shown, if not the task's
	of      *task.Task
	to      string      // the name of the target
	secret  string      // of the links
	steps   []task.Step // that the log knows of the notice
	// templated tells that Text is by a template of the target's own.
	templated bool
}

// Bounds of a message.
const (
	lineBytes = 300
	textBytes = 8 << 10
)

const usualText = `{{.Title}}
{{with .Cause}}{{.}}
{{end}}{{with .Exit}}Exit code {{.}}. {{end}}{{if gt .Attempts 1}}Attempts: {{.Attempts}}. {{end}}{{with .Node}}Node: {{.}}. {{end}}{{if not .At.IsZero}}{{.At.UTC.Format "2006-01-02 15:04:05"}} UTC.{{end}}
{{with .What}}{{.}}
{{end}}{{range .Lines}}  {{.}}
{{end}}{{with .Link}}{{.}}
{{end}}{{range .Actions}}{{.}}
{{end}}`

// title says in a line what a message is about.
func (m *Message) title(n *Notice) string {
	about := value.Cut(oneLine(n.About), 120)
	count := fmt.Sprint(m.Count)
	if m.Partly {
		count = "at least " + count
	}
	switch {
	case n.Others && n.Kind == Failure:
		return fmt.Sprintf("%s tasks failed of many causes since %s UTC", count, m.From.UTC().Format("15:04:05"))
	case n.Others:
		return "More of the kind " + n.Kind + ": `millrace attention` lists them"
	case n.Kind == Failure && n.More:
		return fmt.Sprintf("%s failed %s times more since %s UTC", about, count, m.From.UTC().Format("15:04:05"))
	case n.Kind == Failure && m.Count > 1:
		return fmt.Sprintf("%s failed %s times since %s UTC", about, count, m.From.UTC().Format("15:04:05"))
	}
	if say := says[n.Kind]; say != "" {
		return fmt.Sprintf(say, about)
	}
	return n.Kind + " " + about
}

var says = map[string]string{
	Failure: "%s failed", Recovery: "%s works again", Missed: "Runs of %s are missing", Overdue: "%s is overdue", Waiting: "%s waits for an approval",
	Breaker: "The breaker of %s is open", Node: "Node %s needs you", Queue: "No worker serves %s, and tasks wait there", Horizon: "The log cannot forget %s", Test: "This is a test, %s",
}

// oneLine is a text as a line: what a program prints, or a task is called, adds no line that people
// take for ours.
func oneLine(text string) string { return value.Printable(strings.Join(strings.Fields(text), " ")) }

// errFull ends a template that writes without end.
var errFull = errors.New("the template writes more than a message may have")

// bounded takes as many bytes as a message has.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > textBytes {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// fill makes the text of a message. A template that fails is replaced by the usual text, for a mistake in it
// must not keep anybody from being told.
func (t *Target) fill(m *Message) {
	var text bounded
	is := m
	m.templated = t.Template != ""
	if t.Slack {
		is = m.escaped()
	}
	if err := t.template.Execute(&text, is); err != nil {
		why := value.Cut(err.Error(), lineBytes)
		if t.Slack {
			why = forSlack.Replace(why)
		}
		m.Text = fmt.Sprintf("%s\n%s\n%s\n(The template of this target fails: %v)", is.Title, is.Cause, is.Link, why)
		return
	}
	m.Text = strings.TrimSpace(text.String())
}

// forSlack keeps what a program printed from calling everybody of a channel, and from looking like a link.
var forSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escaped is the message in the form of Slack, but for its links.
func (m *Message) escaped() *Message {
	is := *m
	for _, text := range []*string{&is.Title, &is.Job, &is.Node, &is.Reason, &is.Cause, &is.What} {
		*text = forSlack.Replace(*text)
	}
	is.Lines = slices.Clone(is.Lines)
	for i, line := range is.Lines {
		is.Lines[i] = forSlack.Replace(line)
	}
	return &is
}

// body is what a webhook or a subject gets.
func (m *Message) body(slack bool) ([]byte, error) {
	if slack {
		return json.Marshal(map[string]any{"text": m.Text, "blocks": m.blocks()})
	}
	return json.Marshal(m)
}

// Bounds of what Slack takes, in characters: of the text of a section, of a field and of a header.
const (
	slackText   = 3000
	slackField  = 2000
	slackHeader = 150
)

// block is a block of Slack, or a part of one.
type block map[string]any

// blocks shows a message as Slack can, who then shows no text: a head, what is known of it, the lines that the program
// printed, and buttons. What a template makes stands in the place of all but the head and the buttons.
func (m *Message) blocks() []block {
	all := []block{{"type": "header", "text": block{"type": "plain_text", "text": shorten(m.Title, slackHeader)}}}
	section := func(text string) {
		if text != "" {
			all = append(all, block{"type": "section", "text": block{"type": "mrkdwn", "text": text}})
		}
	}
	if m.templated { // it is escaped, and has links that must not be cut
		part := ""
		for line := range strings.Lines(m.Text) {
			if len(part)+len(line) > slackText {
				section(part)
				part = ""
			}
			part += shorten(line, slackText)
		}
		section(part)
		return append(all, m.buttons()...)
	}
	section(escapedTo(m.Cause, slackText))
	section(escapedTo(m.What, slackText))
	var fields []block
	field := func(name, value string) {
		if value != "" {
			fields = append(fields, block{"type": "mrkdwn", "text": "*" + name + "*\n" + escapedTo(value, slackField-len(name)-3)})
		}
	}
	field("Job", m.Job)
	field("Node", m.Node)
	if m.Exit != nil {
		field("Exit code", fmt.Sprint(*m.Exit))
	}
	if m.Attempts > 1 {
		field("Attempts", fmt.Sprint(m.Attempts))
	}
	if !m.At.IsZero() {
		field("At", m.At.UTC().Format("2006-01-02 15:04:05")+" UTC")
	}
	if len(fields) > 0 {
		all = append(all, block{"type": "section", "fields": fields})
	}
	if len(m.Lines) > 0 {
		const fence = "```"
		section(fence + escapedTo(strings.ReplaceAll(strings.Join(m.Lines, "\n"), fence, "'''"), slackText-2*len(fence)) + fence)
	}
	return append(all, m.buttons()...)
}

// buttons are the links of a message, but for one that is longer than Slack takes.
func (m *Message) buttons() []block {
	var all []block
	add := func(label, link string) block {
		is := block{"type": "button", "text": block{"type": "plain_text", "text": label}, "url": link, "action_id": strings.ToLower(label)}
		if link != "" && len(link) <= slackText {
			all = append(all, is)
		}
		return is
	}
	add("Open", m.Link)
	for _, a := range m.Actions {
		is := add(a.label(), a.Link)
		if style := map[string]string{"approve": "primary", "reject": "danger"}[a.Do]; style != "" {
			is["style"] = style
		}
	}
	if len(all) == 0 {
		return nil
	}
	return []block{{"type": "actions", "elements": all}}
}

// shorten is the beginning of a text, in characters.
func shorten(text string, most int) string {
	if all := []rune(text); len(all) > most {
		return string(all[:most-1]) + "…"
	}
	return text
}

// escapedTo is the beginning of a text in which Slack obeys nothing. What stands for a character is not cut.
func escapedTo(text string, most int) string {
	is := forSlack.Replace(shorten(text, most))
	for n := most; utf8.RuneCountInString(is) > most; {
		n -= max((utf8.RuneCountInString(is)-most)/len("&amp;"), 1)
		is = forSlack.Replace(shorten(text, n))
	}
	return is
}
