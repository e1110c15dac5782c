package jet

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/embed"
	"millrace/events/jet/request"
)

// A client waits at least half and at most all of a delay that doubles from 0.1 s to 1 s.
func TestReconnectDelay(t *testing.T) {
	for attempts, most := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second, time.Second,
	} {
		low, high := most, time.Duration(0)
		for range 200 {
			d := reconnectDelay(attempts)
			low, high = min(low, d), max(high, d)
		}
		if low < most/2 || high >= most || high-low < most/8 {
			t.Errorf("after %d attempts: %v to %v, want from %v to less than %v, spread by chance", attempts, low, high, most/2, most)
		}
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{Auth: embed.Auth{User: "ann", Password: "right"}})
	for _, c := range []struct {
		name           string
		user, password string
		ok             bool
	}{
		{"right", "ann", "right", true},
		{"wrong password", "ann", "wrong", false},
		{"wrong user", "bob", "right", false},
		{"nobody", "", "", false},
	} {
		nc, err := Connect(ConnectConfig{Server: srv.URL(), User: c.user, Password: c.password, Timeout: 2 * time.Second, Name: "test", Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			nc.Close()
		}
		switch {
		case c.ok && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !c.ok && (!errors.Is(err, nats.ErrAuthorization) || !strings.Contains(err.Error(), srv.URL())):
			t.Errorf("%s: %v, want an error of authorization that names the server", c.name, err)
		}
	}
	srv = startServer(t, embed.Config{Auth: embed.Auth{Token: "secret"}})
	nc := must(Connect(ConnectConfig{Server: srv.URL(), User: "secret"}))(t)
	nc.Close()
	if _, err := Connect(ConnectConfig{Server: srv.URL(), User: "guess"}); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestConnectSaysWhere(t *testing.T) {
	t.Parallel()
	where := "nats://" + must(embed.FreeAddresses(1))(t)[0]
	if _, err := Connect(ConnectConfig{Server: where, Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), where) {
		t.Errorf("Connect where nobody listens: %v, want an error that names %s", err, where)
	}
	if _, err := Connect(ConnectConfig{Context: "no-such-context-anywhere"}); err == nil || !strings.Contains(err.Error(), "no-such-context") {
		t.Errorf("Connect with an unknown context: %v, want an error that names it", err)
	}
}

func TestNamelessHidesSecrets(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"nats://127.0.0.1:4222":                     "nats://127.0.0.1:4222",
		"nats://ann:s3cret@host:4222":               "nats://host:4222",
		"tls://s3cret@host":                         "tls://host",
		"s3cret@host:4222":                          "host:4222",
		"nats://a:b@one:1,nats://c:d@two:2,three:3": "nats://one:1,nats://two:2,three:3",
		"nats://a:p@ss@host:1":                      "nats://host:1",
		"":                                          "",
	} {
		if got := Nameless(given); got != want {
			t.Errorf("of %q a person sees %q, want %q", given, got, want)
		}
	}
}

// A configuration that names a user gets none of the credentials of a context; other fields of the
// context stay.
func TestWhatIsSaidIsSetOverTheContext(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.json")
	if err := os.WriteFile(file, []byte(`{"url":"nats://a:1","user":"ann","password":"p","token":"t","ca":"ca.pem","inbox_prefix":"_I"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	rest := request.Context{URL: "nats://a:1", CA: "ca.pem", InboxPrefix: "_I"}
	with := func(change func(*request.Context)) request.Context {
		c := rest
		change(&c)
		return c
	}
	for _, c := range []struct {
		name string
		cfg  ConnectConfig
		want request.Context
	}{
		{"nothing", ConnectConfig{}, with(func(c *request.Context) { c.User, c.Password, c.Token = "ann", "p", "t" })},
		{"server", ConnectConfig{Server: "nats://b:2"}, with(func(c *request.Context) { c.URL, c.User, c.Password, c.Token = "nats://b:2", "ann", "p", "t" })},
		{"password", ConnectConfig{Password: "q"}, with(func(c *request.Context) { c.User, c.Password, c.Token = "ann", "q", "t" })},
		{"user", ConnectConfig{User: "bob", Password: "q"}, with(func(c *request.Context) { c.User, c.Password = "bob", "q" })},
		{"user alone", ConnectConfig{User: "bob"}, with(func(c *request.Context) { c.Token = "bob" })},
		{"token", ConnectConfig{Token: "x"}, with(func(c *request.Context) { c.Token = "x" })},
		{"creds", ConnectConfig{Creds: "f"}, with(func(c *request.Context) { c.Creds = "f" })},
		{"nkey", ConnectConfig{NKey: "f", TLSCA: "other.pem"}, with(func(c *request.Context) { c.NKey, c.CA = "f", "other.pem" })},
	} {
		c.cfg.Context = file
		if got := must(c.cfg.settled())(t); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A connection within the process names no address: it has dialled none.
func TestWhereAConnectionLeads(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	inside := must(srv.Connect())(t)
	t.Cleanup(inside.Close)
	outside := connect(t, srv.URL())
	if in, out := connectedTo(inside), connectedTo(outside); in != "in this process" || Nameless(out) != Nameless(srv.URL()) {
		t.Errorf("inside it is %q, outside %q of %s", in, out, srv.URL())
	}
}
