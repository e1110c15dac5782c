package request

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	theirs "github.com/nats-io/jsm.go/natscontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// home is a folder for settings of this test's own, with a user's files beside it.
func home(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("FILES", dir)
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds := "-----BEGIN NATS USER JWT-----\njwt.of.creds\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	write(t, filepath.Join(dir, "u.creds"), creds, 0o600)
	write(t, filepath.Join(dir, "u.nk"), string(seed), 0o600)
	t.Setenv("SEED", string(seed))
	profile := `{"user_creds":"` + filepath.Join(dir, "u.creds") + `","operator":{"service":["nats://one:1","nats://two:2"]}}`
	write(t, filepath.Join(dir, "bin", "nsc"), "#!/bin/sh\ntest \"$*\" = 'generate profile nsc://o/a/u' && echo '"+profile+"'\n", 0o700)
	write(t, filepath.Join(dir, "bin", "op"), "#!/bin/sh\ntest \"$1 $2\" = 'read op://vault/item' && cat \"$FILES/u.creds\"\n", 0o700)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	return dir
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// identity is all that a server or a proxy sees of options.
type identity struct {
	User, Password, Token, NKey, JWT, Signature, Inbox string
	TLSFirst, Certificate, Authorities                 bool
	Dialer                                             bool
	Wrong                                              string // how they are invalid
}

func identityOf(t *testing.T, opts []nats.Option) identity {
	t.Helper()
	o := nats.GetDefaultOptions()
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return identity{Wrong: err.Error()}
		}
	}
	i := identity{User: o.User, Password: o.Password, Token: o.Token, NKey: o.Nkey, Inbox: o.InboxPrefix, TLSFirst: o.TLSHandshakeFirst,
		Certificate: o.TLSCertCB != nil, Authorities: o.RootCAsCB != nil, Dialer: o.CustomDialer != nil}
	if o.UserJWT != nil {
		jwt, err := o.UserJWT()
		if err != nil {
			t.Fatal(err)
		}
		i.JWT = jwt
	}
	if o.SignatureCB != nil {
		signature, err := o.SignatureCB([]byte("nonce"))
		if err != nil {
			t.Fatal(err)
		}
		i.Signature = string(signature)
	}
	return i
}

// The nats command line's own package and this one take the same out of every context.
func TestAContextMeansWhatTheNATSCommandLineTakesItFor(t *testing.T) {
	dir := home(t)
	for name, text := range map[string]string{
		"empty":    `{}`,
		"url":      `{"description":"d","url":"nats://a:1,nats://b:2"}`,
		"user":     `{"url":"nats://a:1","user":"ann","password":"secret"}`,
		"token":    `{"url":"nats://a:1","token":"secret"}`,
		"creds":    `{"url":"nats://a:1","creds":"$FILES/u.creds"}`,
		"home":     `{"url":"nats://a:1","cert":"~/c.pem","key":"~/k.pem","ca":"~/ca.pem"}`,
		"nkey":     `{"url":"nats://a:1","nkey":"${FILES}/u.nk"}`,
		"jwt":      `{"url":"nats://a:1","user_jwt":"jwt"}`,
		"jwt+seed": `{"url":"nats://a:1","user_jwt":"jwt","user_seed":"` + os.Getenv("SEED") + `"}`,
		"several":  `{"url":"nats://a:1","user":"ann","password":"p","creds":"$FILES/u.creds","token":"t"}`,
		"inbox":    `{"url":"tls://a:1","inbox_prefix":"_INBOX_ann","tls_first":true,"socks_proxy":"socks5://127.0.0.1:1"}`,
		"nsc":      `{"nsc":"nsc://o/a/u"}`,
		"nsc+url":  `{"url":"nats://mine:1","nsc":"nsc://o/a/u"}`,
		"op":       `{"url":"nats://a:1","creds":"op://vault/item"}`,
	} {
		write(t, filepath.Join(dir, "nats", "context", name+".json"), text, 0o600)
		want, err := theirs.New(name, true)
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := want.NATSOptions()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		servers, opts, err := got.Reach()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if servers != want.ServerURL() {
			t.Errorf("%s: the server is %s, want %s", name, servers, want.ServerURL())
		}
		if g, w := identityOf(t, opts), identityOf(t, wanted); g != w {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
		fromFile, err := Load(filepath.Join(dir, "nats", "context", name+".json"))
		if err != nil || !reflect.DeepEqual(fromFile, got) {
			t.Errorf("%s by its path: %+v, %v", name, fromFile, err)
		}
	}
	if known := theirs.KnownContexts(); !slices.Equal(Known(), known) {
		t.Errorf("known are %q, want %q", Known(), known)
	}
	write(t, filepath.Join(dir, "nats", "context.txt"), "nkey\n", 0o600)
	if Selected() != "nkey" || theirs.SelectedContext() != "nkey" {
		t.Errorf("selected is %q", Selected())
	}
}

// The nats command line can read the contexts of this package, and every field that it would write
// is known here.
func TestSavedContextsAreTheirs(t *testing.T) {
	dir := home(t)
	c := Context{}
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x" + v.Type().Field(i).Name)
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{"a", "b"}))
		default:
			t.Fatalf("the test knows no %v", f.Kind())
		}
	}
	if err := c.Save("all"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "nats", "context", "all.json")
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info.Mode(), err)
	}
	if again, err := Load("all"); err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("read again it is %+v, %v", again, err)
	}
	body = []byte(strings.Replace(string(body), `"nsc": "xNSC"`, `"nsc": ""`, 1)) // else they ask nsc
	write(t, path, string(body), 0o600)
	read, err := theirs.New("all", true)
	if err != nil {
		t.Fatal(err)
	}
	rewritten, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	var mine, their map[string]any
	if err := errors.Join(json.Unmarshal(body, &mine), json.Unmarshal(rewritten, &their)); err != nil {
		t.Fatal(err)
	}
	delete(their, "name") // of a saved one it is the file's
	if !reflect.DeepEqual(mine, their) {
		t.Errorf("they write\n%v\nwant\n%v", their, mine)
	}
}

func TestContextsThatCannotBeHad(t *testing.T) {
	dir := home(t)
	write(t, filepath.Join(dir, "nats", "context", "broken.json"), "{", 0o600)
	for name, want := range map[string]string{
		"none": "no such context", "": "no name", "..": "no name", "broken": "broken", "./none.json": "no such context",
	} {
		if _, err := Load(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load(%q): %v, want an error with %q", name, err, want)
		}
	}
	for what, c := range map[string]Context{
		"Windows": {WinCertStore: "user"}, "nsc": {NSC: "nsc://other"}, "op": {Creds: "op://other"}, "nope.nk": {NKey: "nope.nk"},
	} {
		if _, _, err := c.Reach(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("Reach of %+v: %v, want an error with %q", c, err, what)
		}
	}
}
