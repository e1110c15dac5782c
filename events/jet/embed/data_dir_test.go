package embed

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"millrace/events/jet"

	"github.com/nats-io/nats.go"
)

// Without a configured credential, only clients that know the one in the data directory may
// connect.
func TestAServerMakesItsOwnCredential(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	srv := must(Start(Config{Dir: dir}))(t)
	connect(t, srv.URL()).Close()
	if address := srv.Address(); strings.Contains(address, "@") || jet.Nameless(srv.URL()) != address {
		t.Errorf("its address is %s, its URL %s; want the one to be the other without the secret", address, srv.URL())
	}
	for _, wrong := range []string{"", "millrace@", "millrace:@", "millrace:guess@", "somebody:" + srv.cfg.Auth.Password + "@"} {
		u := "nats://" + wrong + strings.TrimPrefix(srv.Address(), "nats://")
		if nc, err := nats.Connect(u); !errors.Is(err, nats.ErrAuthorization) {
			if err == nil {
				nc.Close()
			}
			t.Errorf("at %s: %v, want a refusal", u, err)
		}
	}
	if _, err := jet.Connect(jet.ConnectConfig{Server: strings.Replace(srv.URL(), srv.cfg.Auth.Password, "s3cret", 1), Timeout: time.Second}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("an error that people see holds a password: %v", err)
	}
	before := must(url.Parse(srv.URL()))(t).User.String()
	srv.Stop()
	again := startServer(t, Config{Dir: dir})
	if after := must(url.Parse(again.URL()))(t).User.String(); after != before {
		t.Error("the next server of the directory has another password: workers would not come back")
	}
	other := startServer(t, Config{})
	if must(url.Parse(other.URL()))(t).User.String() == before {
		t.Error("two directories have one password")
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, passwordFile): 0o600, filepath.Join(dir, lockFile): 0o600} {
		if info := must(os.Stat(name))(t); info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode().Perm(), mode)
		}
	}
}

func TestLockDirShutsItToOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		mode   os.FileMode
		holds  string
		refuse bool
	}{
		{"its own", 0o700, "view.db", false},
		{"empty", 0o777, "", false},
		{"of an earlier version", 0o750, "lock", false},
		{"with something else", 0o755, "photo.png", true},
		{"such as /tmp", 0o777 | os.ModeSticky, "x", true},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if c.holds != "" {
			if err := os.WriteFile(filepath.Join(dir, c.holds), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		lock, err := LockDir(dir)
		if err == nil {
			if err := lock.Unlock(); err != nil {
				t.Error(err)
			}
		}
		now := must(os.Stat(dir))(t).Mode() & (os.ModePerm | os.ModeSticky)
		switch {
		case c.refuse && (!errors.Is(err, ErrShared) || now != c.mode):
			t.Errorf("%s: %v, and its mode is %v; want it refused and left alone", c.name, err, now)
		case !c.refuse && (err != nil || now.Perm()&0o077 != 0):
			t.Errorf("%s: %v, and its mode is %v; want it shut to others", c.name, err, now)
		}
	}
}

func TestLendContext(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	srv := startServer(t, Config{})
	takeBack := must(srv.LendContext("millrace-test"))(t)
	nc := must(jet.Connect(jet.ConnectConfig{Context: "millrace-test"}))(t)
	nc.Close()
	path := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "nats", "context", "millrace-test.json")
	if info := must(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the context: %v", info.Mode())
	}
	other := startServer(t, Config{})
	takeOther := must(other.LendContext("millrace-test"))(t) // the newer one has the name
	takeBack()
	nc = must(jet.Connect(jet.ConnectConfig{Context: "millrace-test"}))(t)
	nc.Close()
	takeOther()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the context is left: %v", err)
	}
	mine := []byte(`{"description":"my own","url":"nats://example.test:4222"}`)
	if err := os.WriteFile(path, mine, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := srv.LendContext("millrace-test"); err == nil {
		t.Error("a context of somebody's own was overwritten")
	}
	explicit := startServer(t, Config{Auth: Auth{Token: "given"}})
	if _, err := explicit.LendContext("millrace-other"); err == nil {
		t.Error("a secret that an operator has given was handed on")
	}
}
