package notices

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"

	"millrace/task/value"
)

// Config is the file of the setting notify: whom a server can tell, and of what.
type Config struct {
	// Link is the address of the pages, for links in messages. Default: that of the server's HTTP.
	Link string `json:"link,omitempty"`
	// Targets are whom it can tell, by names that jobs and rules use.
	Targets map[string]*Target `json:"targets"`
	// Rules say who is told of what, whatever the jobs say. Default: none.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule tells targets of some of what happens.
type Rule struct {
	// On are kinds of [Kinds]. Default: all.
	On []string `json:"on,omitempty"`
	// To are names of targets.
	To []string `json:"to"`
	// Jobs, Queues and Schedules are patterns, such as backup-*, of which one must be like the name. Default: any,
	// and also what has none.
	Jobs      []string `json:"jobs,omitempty"`
	Queues    []string `json:"queues,omitempty"`
	Schedules []string `json:"schedules,omitempty"`
	// Remind tells it again, so often while nobody acts: at least 1m. Default: it is told once.
	Remind value.Duration `json:"remind,omitempty"`
}

// Target is somebody who can be told, in one way.
type Target struct {
	// Webhook is a URL that gets a POST; Secret signs it. Slack gives it a text, and the same as blocks of Slack.
	Webhook *Text `json:"webhook,omitempty"`
	Secret  *Text `json:"secret,omitempty"`
	Slack   bool  `json:"slack,omitempty"`
	// Mail is a mail server with the addresses.
	Mail *Mail `json:"mail,omitempty"`
	// Service is a URL of shoutrrr, such as ntfy://ntfy.sh/topic.
	Service *Text `json:"service,omitempty"`
	// Command is started by a worker of Queue as a task of its own. Default of Queue: default.
	Command []string `json:"command,omitempty"`
	Queue   string   `json:"queue,omitempty"`
	// Subject is a subject of the NATS server.
	Subject string `json:"subject,omitempty"`

	// Template makes the text of a [Message], in the language of text/template. Default: the text of all targets.
	Template string `json:"template,omitempty"`
	// Buttons gives whoever reads its messages links that approve, reject or retry.
	Buttons bool `json:"buttons,omitempty"`
	// Window names a calendar: outside its hours notices wait. Default: none do.
	Window string `json:"window,omitempty"`
	// Collect is how long a notice waits for more of its kind: 0 to Every. Default 10s.
	Collect *value.Duration `json:"collect,omitempty"`
	// Every is the period in which two messages of one cause go out at most: 1m to 24h. Default 1h.
	Every value.Duration `json:"every,omitempty"`

	template *template.Template
}

// Mail is a mail server, and who writes to whom.
type Mail struct {
	Host string `json:"host"`
	// Port is that of the server. Default 587, with which TLS is asked for.
	Port int `json:"port,omitempty"`
	// TLS is starttls, the default; always, from the first byte; or none.
	TLS      string   `json:"tls,omitempty"`
	From     string   `json:"from"`
	To       []string `json:"to"`
	User     string   `json:"user,omitempty"`
	Password *Text    `json:"password,omitempty"`
}

// Text is a text, or where it is found: a file, or a variable of the server's environment. It is read each
// time.
type Text struct{ Text, File, Env string }

// UnmarshalYAML reads a text, or a mapping with file or env.
func (t *Text) UnmarshalYAML(read func(any) error) error {
	if read(&t.Text) == nil {
		return nil
	}
	var from struct{ File, Env string }
	if err := read(&from); err != nil || (from.File == "") == (from.Env == "") {
		return errors.New("want a text, {file: PATH} or {env: NAME}")
	}
	t.File, t.Env = from.File, from.Env
	return nil
}

// read returns the text.
func (t *Text) read() (string, error) {
	switch {
	case t == nil:
		return "", nil
	case t.File != "":
		data, err := os.ReadFile(t.File)
		return strings.TrimRight(string(data), "\r\n"), err
	case t.Env != "":
		is, ok := os.LookupEnv(t.Env)
		if !ok {
			return "", fmt.Errorf("$%s is not set", t.Env)
		}
		return is, nil
	}
	return t.Text, nil
}

// Defaults and bounds of a [Target].
const (
	DefaultCollect = 10 * time.Second
	DefaultEvery   = time.Hour
	MinEvery       = time.Minute
	MaxEvery       = 24 * time.Hour
)

// Load reads the file of the setting notify. The error says what is wrong in it, and where.
func Load(name string) (*Config, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	if err := yaml.UnmarshalWithOptions(data, c, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimSpace(yaml.FormatError(err, false, false)))
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func (c *Config) validate() error {
	for _, name := range slices.Sorted(maps.Keys(c.Targets)) {
		if err := value.ValidName("target", name); err != nil {
			return fmt.Errorf("targets: %w", err)
		}
		if c.Targets[name] == nil {
			c.Targets[name] = &Target{}
		}
		if err := c.Targets[name].validate(); err != nil {
			return fmt.Errorf("targets.%s: %w", name, err)
		}
	}
	for i := range c.Rules {
		if err := c.Rules[i].validate(c.Targets); err != nil {
			return fmt.Errorf("rules[%d].%w", i, err)
		}
	}
	if c.Link = strings.TrimSuffix(c.Link, "/"); c.Link != "" {
		if u, err := url.Parse(c.Link); err != nil || u.Host == "" {
			return fmt.Errorf("link is %q, want the address of the pages, such as https://millrace.example", c.Link)
		}
	}
	return nil
}

func (r *Rule) validate(targets map[string]*Target) error {
	for _, kind := range r.On {
		if !slices.Contains(Kinds, kind) {
			return fmt.Errorf("on: %q is none of %s", kind, value.List(Kinds))
		}
	}
	if r.Remind != 0 && r.Remind.Std() < time.Minute {
		return fmt.Errorf("remind is %v, want at least 1m", r.Remind)
	}
	if len(r.To) == 0 {
		return errors.New("to is missing: name targets")
	}
	for _, to := range r.To {
		if targets[to] == nil {
			return fmt.Errorf("to: there is no target %q", to)
		}
	}
	for _, pattern := range slices.Concat(r.Jobs, r.Queues, r.Schedules) {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("%q is no pattern", pattern)
		}
	}
	return nil
}

func (t *Target) validate() (err error) {
	ways := 0
	for _, is := range []bool{t.Webhook != nil, t.Mail != nil, t.Service != nil, len(t.Command) > 0, t.Subject != ""} {
		if is {
			ways++
		}
	}
	if t.Every == 0 {
		t.Every = value.Duration(DefaultEvery)
	}
	if t.Collect == nil {
		t.Collect = new(value.Duration(min(DefaultCollect, t.Every.Std())))
	}
	switch {
	case ways != 1:
		return errors.New("want one of webhook, mail, service, command and subject")
	case t.Webhook == nil && (t.Secret != nil || t.Slack):
		return errors.New("secret and slack belong to a webhook")
	case t.Buttons && len(t.Command) > 0:
		return errors.New("a command has no buttons: what it is told stays in the log")
	case t.Queue != "" && len(t.Command) == 0:
		return errors.New("queue belongs to a command")
	case strings.ContainsAny(t.Subject, " \t*>") || t.Subject != "" && strings.HasPrefix(t.Subject, "mr."):
		return fmt.Errorf("subject is %q, want one without wildcards that does not begin with mr", t.Subject)
	case t.Every.Std() < MinEvery || t.Every.Std() > MaxEvery:
		return fmt.Errorf("every is %v, want %v to %v", t.Every, MinEvery, MaxEvery)
	case t.Collect.Std() > t.Every.Std():
		return fmt.Errorf("collect is %v, want at most every, which is %v", t.Collect, t.Every)
	}
	if t.Mail != nil {
		if err := t.Mail.validate(); err != nil {
			return err
		}
	}
	if t.template, err = template.New("template").Option("missingkey=error").Parse(cmp.Or(t.Template, usualText)); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	return nil
}

func (m *Mail) validate() error {
	m.Port, m.TLS = cmp.Or(m.Port, 587), cmp.Or(m.TLS, "starttls")
	switch {
	case m.Host == "" || m.From == "" || len(m.To) == 0:
		return errors.New("mail: want host, from and to")
	case m.Port < 1 || m.Port > 65535:
		return fmt.Errorf("mail.port is %d, want 1 to 65535", m.Port)
	case !slices.Contains([]string{"starttls", "always", "none"}, m.TLS):
		return fmt.Errorf("mail.tls is %q, want starttls, always or none", m.TLS)
	case m.User != "" && m.TLS == "none":
		return errors.New("mail.tls is none, which would show the password to the network")
	}
	return nil
}

// url is the mail server in the form of shoutrrr, for mail to an address.
func (m *Mail) url(to string) (string, error) {
	password, err := m.Password.read()
	if err != nil {
		return "", err
	}
	auth := "None"
	u := &url.URL{Scheme: "smtp", Host: fmt.Sprintf("%s:%d", m.Host, m.Port), Path: "/"}
	if m.User != "" {
		u.User, auth = url.UserPassword(m.User, password), "Plain"
	}
	q := url.Values{"fromaddress": {m.From}, "toaddresses": {to}, "auth": {auth}, "fromname": {"Millrace"}}
	switch m.TLS {
	case "always":
		q.Set("encryption", "ImplicitTLS")
	case "none":
		q.Set("encryption", "None")
		q.Set("usestarttls", "No")
	default:
		q.Set("encryption", "ExplicitTLS")
		q.Set("requirestarttls", "Yes")
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}
