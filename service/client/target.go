package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/value"
)

// ErrOptions: the options or the environment describe no usable server.
var ErrOptions = errors.New("how to reach the server")

// UsualServer is the address of a NATS server if nothing else is known.
const UsualServer = "nats://127.0.0.1:4222"

// Target is the server that a program uses, and the credentials. [FindServer] makes one.
type Target struct {
	// Options are everything that a connection needs. They hold secrets.
	Options Options
	// Name is the server's name for messages. It holds no secret.
	Name string
	// By says why it is this server.
	By Why
	// Running is the server of this user that was found on this machine; the zero value if By is
	// not [Running].
	Running request.Server
	// Others is how many more of this user's servers run here. Running is the newest.
	Others int
	// Passed is the selected context of the nats command line that Running overrides; "" for none.
	Passed string
	// Withheld tells that there are credentials which [Usual] does not send.
	Withheld bool
}

// Why says why a program uses a certain server.
type Why int

// Reasons, in the order of precedence.
const (
	// Named: the program's options or the environment name an address or a context.
	Named Why = iota
	// Running: this user runs a `millrace dev` or `millrace server` on this machine.
	Running
	// Selected: the nats command line has a context selected.
	Selected
	// Usual: nothing names a server, so it is [UsualServer]. That server has asked for no secrets,
	// so it is sent none.
	Usual
)

// Chosen tells whether the user has named the server. A worker runs whatever its server tells it
// to, so in production it should not join one that was only found.
func (t Target) Chosen() bool { return t.By == Named || t.By == Selected }

// Connect connects to the server. See the function [Connect] for errors.
func (t Target) Connect(ctx context.Context) (*Client, error) {
	nc, err := jet.Connect(t.Options)
	if err != nil {
		if t.By == Usual {
			err = fmt.Errorf("no server was named, and this user runs none here (start `millrace dev`, or set $NATS_URL): %w", err)
		}
		return nil, err
	}
	store, err := jet.Attach(ctx, nc, jet.WithClock(t.Options.Clock), jet.WithPatience(t.Options.Patience))
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := New(store, "")
	c.own = nc
	return c, nil
}

// FindServer decides which server a program talks to, and with which credentials. Programs and the
// command line of Millrace follow this one rule. The first line that applies names the server:
//
//  1. o.Server, o.Context, or both
//  2. $NATS_URL, $NATS_CONTEXT, or both
//  3. a `millrace dev` or `millrace server` with a NATS server of its own that this user runs on
//     this machine, the newest of several, with the password that it has made for itself
//  4. the context that is selected in the nats command line
//  5. [UsualServer], without credentials
//
// For what o leaves open, the environment applies: $NATS_USER, $NATS_PASSWORD or
// $NATS_PASSWORD_FILE, $NATS_TOKEN_FILE, $NATS_CREDS, $NATS_NKEY, $NATS_CERT, $NATS_KEY, $NATS_CA,
// $NATS_INBOX_PREFIX, $NATS_TIMEOUT. If o has a token, credentials or an nkey, the environment adds
// none; if it has a user or a password, the other one at most.
//
// The error wraps [ErrOptions] if the environment makes no sense. FindServer connects to nothing.
func FindServer(o Options) (Target, error) {
	return surroundings{os.Getenv, ReadSecret, request.Find, request.Selected}.find(o)
}

// surroundings are the sources that FindServer reads.
type surroundings struct {
	getenv   func(string) string
	secret   func(path string) (string, error)
	running  func() (newest request.Server, others int, err error)
	selected func() string
}

func (s surroundings) find(o Options) (Target, error) {
	if err := s.fill(&o); err != nil {
		return Target{}, err
	}
	t := Target{Options: o}
	switch {
	case o.Server != "":
		t.Name = jet.Nameless(o.Server)
		return t, checkURLs(o.Server)
	case o.Context != "":
		t.Name = fmt.Sprintf("the server of context %q", o.Context)
		return t, nil
	}
	selected := s.selected()
	running, others, err := s.running()
	switch {
	case err == nil:
		t.By, t.Running, t.Others, t.Passed = Running, running, others, selected
		t.Options.Server, t.Name = running.URL, jet.Nameless(running.URL)
	case !errors.Is(err, request.ErrNone):
		return Target{}, err
	case selected != "":
		t.By, t.Options.Context, t.Name = Selected, selected, fmt.Sprintf("the server of context %q (selected)", selected)
	default:
		t.By, t.Options.Server, t.Name = Usual, UsualServer, UsualServer
		for _, secret := range []*string{&t.Options.User, &t.Options.Password, &t.Options.Token, &t.Options.Creds, &t.Options.NKey, &t.Options.TLSCert, &t.Options.TLSKey} {
			t.Withheld = t.Withheld || *secret != ""
			*secret = ""
		}
	}
	return t, nil
}

// fill takes from the environment what the options leave open.
func (s surroundings) fill(o *Options) (err error) {
	if o.Server == "" && o.Context == "" { // either of them names the server
		o.Server, o.Context = s.getenv("NATS_URL"), s.getenv("NATS_CONTEXT")
	}
	for name, field := range map[string]*string{"NATS_CERT": &o.TLSCert, "NATS_KEY": &o.TLSKey, "NATS_CA": &o.TLSCA, "NATS_INBOX_PREFIX": &o.InboxPrefix} {
		*field = cmp.Or(*field, s.getenv(name))
	}
	if text := s.getenv("NATS_TIMEOUT"); text != "" && o.Timeout == 0 {
		if o.Timeout, err = value.ParseDuration(text); err != nil || o.Timeout <= 0 {
			return fmt.Errorf("%w: $NATS_TIMEOUT is %q, want a duration such as 5s", ErrOptions, text)
		}
	}
	return s.fillWho(o)
}

// fillWho takes the credentials from the environment, unless the options have any.
func (s surroundings) fillWho(o *Options) (err error) {
	if o.Token+o.Creds+o.NKey != "" {
		return nil
	}
	if tokens := s.getenv("NATS_TOKEN_FILE"); tokens != "" && o.User+o.Password == "" {
		if s.getenv("NATS_USER") != "" {
			return fmt.Errorf("%w: $NATS_TOKEN_FILE does not go together with $NATS_USER", ErrOptions)
		}
		o.Token, err = s.secret(tokens)
		return err
	}
	if o.User+o.Password == "" {
		o.Creds, o.NKey = s.getenv("NATS_CREDS"), s.getenv("NATS_NKEY")
	}
	o.User, o.Password = cmp.Or(o.User, s.getenv("NATS_USER")), cmp.Or(o.Password, s.getenv("NATS_PASSWORD"))
	if file := s.getenv("NATS_PASSWORD_FILE"); file != "" && o.Password == "" {
		o.Password, err = s.secret(file)
	}
	return err
}

// ReadSecret reads a file that holds only a secret, without the white space around it. The error
// wraps [ErrOptions], and os.ErrNotExist if the file is missing.
func ReadSecret(path string) (string, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%w: secret: %w", ErrOptions, err)
	}
	secret := strings.TrimSpace(string(body))
	if secret == "" {
		return "", fmt.Errorf("%w: secret: %s is empty", ErrOptions, path)
	}
	return secret, nil
}

// checkURLs refuses addresses that cannot be parsed. The library's own error would repeat them,
// with their secrets.
func checkURLs(servers string) error {
	for server := range strings.SplitSeq(servers, ",") {
		switch is, err := url.Parse(strings.TrimSpace(server)); {
		case err == nil && (is.Scheme == "http" || is.Scheme == "https"):
			return fmt.Errorf("%w: %s is an address of HTTP, and a server is named by that of its NATS server, such as %s; the API over HTTP is for curl and browsers", ErrOptions, jet.Nameless(server), UsualServer)
		case err == nil && strings.Contains(server, "://") && !slices.Contains([]string{"nats", "tls", "ws", "wss"}, is.Scheme):
			return fmt.Errorf("%w: %s begins with %s://, and a server is named by the address of its NATS server, such as %s", ErrOptions, jet.Nameless(server), is.Scheme, UsualServer)
		case err != nil && jet.Nameless(server) != server:
			return fmt.Errorf("%w: the address of the server, %s with a user or a token before it, cannot be read: want nats://USER:PASSWORD@HOST:PORT, with %%-escapes", ErrOptions, jet.Nameless(server))
		}
	}
	return nil
}

// Health is the state of Millrace, as one of its servers sees it.
type Health struct {
	// Log says why the log takes no messages; "" if it does.
	Log string `json:"log,omitempty"`
	// Watched is since when all present schedulers watch for queues without nodes. It is missing if no
	// scheduler is there.
	Watched time.Time `json:"watched,omitzero"`
	// Settings are those of the server by which it judges what must happen to tasks and nodes, and by
	// when: `start_deadline` and others, as in a file of settings.
	Settings map[string]string `json:"settings,omitempty"`
	// Import says what the log lacks because it was imported.
	Import events.Import `json:"import,omitzero"`
}

// Health asks a server for the state of Millrace. The error wraps [jet.ErrNoService] if none answers.
func (c *Client) Health(ctx context.Context) (h Health, err error) {
	return h, c.ask(ctx, rights.ServerHealth, struct{}{}, &h)
}

// Horizon is where the log begins, and what it keeps.
type Horizon struct {
	// First is the first sequence that the log has, Oldest when it stored that, and Last the last one.
	First  uint64    `json:"first"`
	Oldest time.Time `json:"oldest,omitzero"`
	Last   uint64    `json:"last"`
	// Below and Before are where the horizon last moved to, or moves to: all that lies below that
	// sequence is older than that time, and gone. Step is how far that is: "chosen", "sealed",
	// "carried" or "purged"; "" if the log has never forgotten anything. Since is when.
	Below  uint64    `json:"below,omitempty"`
	Before time.Time `json:"before,omitzero"`
	Step   string    `json:"step,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Why says in words what moved it, Carried is how many chains were written anew, and Passed how
	// many sequences it passed.
	Why     string `json:"why,omitempty"`
	Carried int    `json:"carried,omitempty"`
	Passed  uint64 `json:"passed,omitempty"`
	// Held is what holds the horizon back from what is to go, as the server that answers has found when
	// it last looked, at Looked; nil if nothing does, or it has not looked yet.
	Held   *HorizonHold `json:"held,omitempty"`
	Looked time.Time    `json:"looked,omitzero"`
	// Holds is the oldest offer, which the horizon will not pass; nil if there is none.
	Holds *HorizonHold `json:"holds,omitempty"`
	// Settings are those by which the servers keep what has ended.
	Settings map[string]string `json:"settings,omitempty"`
}

// HorizonHold is what the horizon of the log does not pass.
type HorizonHold struct {
	// What says in words what it is, and By in one word: "offer", "task", "size" of a task, "limit",
	// "budget", "archive" or "fault". It lies at Seq, of Task if it is a task's, and Since is since when.
	By    string    `json:"by"`
	What  string    `json:"what"`
	Seq   uint64    `json:"seq"`
	Task  task.ID   `json:"task,omitempty"`
	Since time.Time `json:"since"`
}

// Stuck tells whether it does not pass by itself.
func (h *HorizonHold) Stuck() bool { return h.By == "size" || h.By == "archive" || h.By == "fault" }

// Horizon asks a server what the log keeps. The error wraps [jet.ErrNoService] if none answers.
func (c *Client) Horizon(ctx context.Context) (h Horizon, err error) {
	return h, c.ask(ctx, rights.LogHorizon, struct{}{}, &h)
}

// ArchiveNote says which segments of an archive are removed.
type ArchiveNote struct {
	// Archive is its place, as who removes them names it.
	Archive string `json:"archive"`
	// Segments are their names.
	Segments []string `json:"segments"`
}

// ArchiveRemoved has a server record that the caller removes segments of an archive. If none answers it
// writes that itself, which only who may do what servers do may.
func (c *Client) ArchiveRemoved(ctx context.Context, n ArchiveNote) error {
	err := c.ask(ctx, rights.ArchiveNote, n, &n)
	if errors.Is(err, jet.ErrNoService) {
		return c.NoteArchive(ctx, n)
	}
	return err
}

// NoteArchive is [Client.ArchiveRemoved] without a server.
func (c *Client) NoteArchive(ctx context.Context, n ArchiveNote) error {
	for {
		h, err := c.rec.Horizon(ctx)
		if err != nil {
			return err
		}
		if done, err := c.rec.StepHorizon(ctx, &h, h.Removal(n.Archive, n.Segments)); done || err != nil {
			return err
		} // else a server has made a step meanwhile
	}
}

// AskHealth asks a server of Millrace for its health. That needs no log and makes its own
// connection, so it also works if the log cannot be opened. The error wraps [jet.ErrNoService] if
// there is no such server.
func (t Target) AskHealth(ctx context.Context) (h Health, err error) {
	return h, jet.AskOnce(ctx, t.Options, rights.ServerHealth, struct{}{}, &h)
}

// Unreachable tells whether an error of [Connect], or of a later call, means that there was no
// server or that it did not answer. Trying again may help.
func Unreachable(err error) bool {
	var network *net.OpError // not net.Error: a missing file also is one
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.As(err, &network)
}

// Denied tells whether an error of [Connect] means that the server wants other credentials, or any.
func Denied(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// Contexts returns the names of the contexts of the nats command line.
func Contexts() []string { return request.Known() }
