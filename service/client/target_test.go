package client

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"millrace/events/jet/request"
)

func TestWhichServer(t *testing.T) {
	t.Parallel()
	dev := request.Server{URL: "nats://millrace:made@127.0.0.1:4222", Role: "dev"}
	type env map[string]string
	for _, c := range []struct {
		name     string
		given    Options
		env      env
		running  bool
		selected string
		want     Options
		by       Why
		chosen   bool
		says     string // Name
		withheld bool
		wrong    string // part of the error
	}{
		{name: "an address counts most", given: Options{Server: "nats://a:1"}, env: env{"NATS_URL": "nats://b:2", "NATS_CONTEXT": "c"}, running: true, selected: "s",
			want: Options{Server: "nats://a:1"}, by: Named, chosen: true, says: "nats://a:1"},
		{name: "so does a context", given: Options{Context: "c"}, env: env{"NATS_URL": "nats://b:2"}, running: true, selected: "s",
			want: Options{Context: "c"}, by: Named, chosen: true, says: `the server of context "c"`},
		{name: "then the environment", env: env{"NATS_URL": "nats://ann:secret@b:2"}, running: true, selected: "s",
			want: Options{Server: "nats://ann:secret@b:2"}, by: Named, chosen: true, says: "nats://b:2"},
		{name: "its context", env: env{"NATS_CONTEXT": "c"}, running: true,
			want: Options{Context: "c"}, by: Named, chosen: true, says: `the server of context "c"`},
		{name: "both of its", env: env{"NATS_CONTEXT": "c", "NATS_URL": "nats://b:2"}, running: true,
			want: Options{Context: "c", Server: "nats://b:2"}, by: Named, chosen: true, says: "nats://b:2"},
		{name: "then what runs here", running: true, selected: "s",
			want: Options{Server: dev.URL}, by: Running, says: "nats://127.0.0.1:4222"},
		{name: "then the selected context", selected: "s", env: env{"NATS_CREDS": "f"},
			want: Options{Context: "s", Creds: "f"}, by: Selected, chosen: true, says: `the server of context "s" (selected)`},
		{name: "else the usual one", want: Options{Server: UsualServer}, by: Usual, says: UsualServer},
		{name: "which is offered no secret of the environment", env: env{"NATS_USER": "ann", "NATS_PASSWORD": "secret", "NATS_CREDS": "f", "NATS_NKEY": "f", "NATS_CERT": "f", "NATS_KEY": "f", "NATS_CA": "ca"},
			want: Options{Server: UsualServer, TLSCA: "ca"}, by: Usual, says: UsualServer, withheld: true},
		{name: "nor one of the program", given: Options{Token: "secret"},
			want: Options{Server: UsualServer}, by: Usual, says: UsualServer, withheld: true},
		{name: "nor a token from a file", env: env{"NATS_TOKEN_FILE": "f"},
			want: Options{Server: UsualServer}, by: Usual, says: UsualServer, withheld: true},

		{name: "who one is, from the environment", given: Options{Server: "a"}, env: env{"NATS_USER": "ann", "NATS_PASSWORD_FILE": "f", "NATS_CREDS": "f", "NATS_INBOX_PREFIX": "_I", "NATS_TIMEOUT": "3s"},
			want: Options{Server: "a", User: "ann", Password: "in f", Creds: "f", InboxPrefix: "_I", Timeout: 3 * time.Second}, chosen: true, says: "a"},
		{name: "a password before a file with one", given: Options{Server: "a"}, env: env{"NATS_USER": "ann", "NATS_PASSWORD": "p", "NATS_PASSWORD_FILE": "f"},
			want: Options{Server: "a", User: "ann", Password: "p"}, chosen: true, says: "a"},
		{name: "a token", given: Options{Server: "a"}, env: env{"NATS_TOKEN_FILE": "f", "NATS_PASSWORD": "p"},
			want: Options{Server: "a", Token: "in f"}, chosen: true, says: "a"},
		{name: "a user of the program, and the environment's password", given: Options{Server: "a", User: "bob"}, env: env{"NATS_USER": "ann", "NATS_PASSWORD": "p", "NATS_TOKEN_FILE": "f", "NATS_CREDS": "f"},
			want: Options{Server: "a", User: "bob", Password: "p"}, chosen: true, says: "a"},
		{name: "credentials of the program alone", given: Options{Server: "a", Creds: "mine"}, env: env{"NATS_USER": "ann", "NATS_PASSWORD": "p", "NATS_NKEY": "f"},
			want: Options{Server: "a", Creds: "mine"}, chosen: true, says: "a"},
		{name: "a token of the program alone", given: Options{Server: "a", Token: "mine", Timeout: time.Second}, env: env{"NATS_PASSWORD": "p", "NATS_TIMEOUT": "soon"},
			want: Options{Server: "a", Token: "mine", Timeout: time.Second}, chosen: true, says: "a"},

		{name: "no time", env: env{"NATS_TIMEOUT": "soon"}, wrong: `$NATS_TIMEOUT is "soon"`},
		{name: "no time at all", env: env{"NATS_TIMEOUT": "0s"}, wrong: `$NATS_TIMEOUT is "0s"`},
		{name: "a user and a token", env: env{"NATS_USER": "ann", "NATS_TOKEN_FILE": "f"}, wrong: "does not go together"},
		{name: "no such file", env: env{"NATS_PASSWORD_FILE": "none"}, wrong: "none"},
		{name: "the API over HTTP", given: Options{Server: "https://b:2"}, wrong: "an address of HTTP"},
		{name: "another scheme", given: Options{Server: "ftp://ann:secret@b:2"}, wrong: "begins with ftp://"},
		{name: "no address", env: env{"NATS_URL": "nats://ann:se%cret@b:2"}, wrong: "nats://b:2"},
	} {
		s := surroundings{
			getenv: func(name string) string { return c.env[name] },
			secret: func(path string) (string, error) {
				if path == "none" {
					return "", fmt.Errorf("%w: %s", ErrOptions, path)
				}
				return "in " + path, nil
			},
			running: func() (request.Server, int, error) {
				if c.running {
					return dev, 2, nil
				}
				return request.Server{}, 0, request.ErrNone
			},
			selected: func() string { return c.selected },
		}
		got, err := s.find(c.given)
		if c.wrong != "" {
			if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "cret") {
				t.Errorf("%s: %v, want an error with %q and without a secret", c.name, err, c.wrong)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got.Options, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got.Options, err, c.want)
		}
		if got.By != c.by || got.Chosen() != c.chosen || got.Name != c.says || got.Withheld != c.withheld {
			t.Errorf("%s: %q by %v, chosen %v, withheld %v; want %q by %v, %v, %v", c.name, got.Name, got.By, got.Chosen(), got.Withheld, c.says, c.by, c.chosen, c.withheld)
		}
		if found := c.by == Running; found != (got.Running == dev) || found != (got.Others == 2) || found != (got.Passed == "s") {
			t.Errorf("%s: running %+v, %d others, passed %q", c.name, got.Running, got.Others, got.Passed)
		}
	}
}

// If the user named the address, the error is passed on as it is; if not, the error says so.
func TestConnectSaysThatNoServerWasNamed(t *testing.T) {
	t.Parallel()
	for by, want := range map[Why]bool{Named: false, Usual: true} {
		_, err := Target{By: by, Options: Options{Server: "nats://127.0.0.1:1"}}.Connect(t.Context())
		if !Unreachable(err) || strings.Contains(err.Error(), "no server was named") != want {
			t.Errorf("by %v: %v", by, err)
		}
	}
}

// FindServer reads the real environment of this process.
func TestFindServerLooksAround(t *testing.T) {
	for _, name := range []string{"NATS_URL", "NATS_CONTEXT", "NATS_USER", "NATS_PASSWORD", "NATS_TOKEN_FILE", "NATS_CREDS", "NATS_NKEY", "NATS_TIMEOUT"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("MILLRACE_DEV_DIR", filepath.Join(dir, "dev"))
	expect := func(when string, by Why, server string) {
		t.Helper()
		if got, err := FindServer(Options{}); err != nil || got.By != by || got.Options.Server != server {
			t.Errorf("%s: %v %q, %v, want %v %q", when, got.By, got.Options.Server, err, by, server)
		}
	}
	expect("with nothing", Usual, UsualServer)
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "nats"), 0o700), os.WriteFile(filepath.Join(dir, "nats", "context.txt"), []byte("c"), 0o600)); err != nil {
		t.Fatal(err)
	}
	expect("with a context", Selected, "")
	lock := flock.New(filepath.Join(dir, "lock")) // as a server holds that of its data
	if ok, err := lock.TryLock(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() { _ = lock.Unlock() })
	forget, err := request.Announce("nats://running", "dev", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer forget()
	expect("with a dev", Running, "nats://running")
	t.Setenv("NATS_URL", "nats://named")
	expect("with an environment", Named, "nats://named")

	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte(" word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NATS_TOKEN_FILE", secret)
	if got, err := FindServer(Options{}); err != nil || got.Options.Token != "word" {
		t.Errorf("the token is %q, %v", got.Options.Token, err)
	}
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FindServer(Options{}); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "empty") {
		t.Errorf("with an empty file: %v", err)
	}
}
