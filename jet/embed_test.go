package jet

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

func TestDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := must(StartServer(ServerConfig{Dir: dir}))(t)
	defer first.Stop()
	if _, err := StartServer(ServerConfig{Dir: dir}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second server on the same directory: %v, want ErrLocked and the directory", err)
	}
	s := openStore(t, connect(t, first.URL()), Layout{}) // the first is none the worse for it
	submit(t, s, "default")
	first.Stop()
	first.Stop() // twice is harmless
	second := must(StartServer(ServerConfig{Dir: dir}))(t)
	second.Stop()
}

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	srv := must(StartServer(ServerConfig{Dir: dir}))(t)
	s := openStore(t, connect(t, srv.URL()), Layout{AckWait: 7 * time.Second, SyncAlways: true})
	id := submit(t, s, "default")
	seq := must(s.Append(within(t), newFact(id, note("x")), 0))(t)
	srv.Stop()

	srv = startServer(t, ServerConfig{Dir: dir})
	s = openStore(t, connect(t, srv.URL()), Layout{AckWait: time.Minute}) // a layout has no effect on what exists
	if records := must(s.Task(within(t), id))(t); len(records) != 2 || records[1].Seq != seq {
		t.Errorf("after a restart the task has the records %+v", records)
	}
	if s.AckWait() != 7*time.Second || s.group == nil {
		t.Errorf("after a restart the lease is %v, groups %v; want what the log was made with", s.AckWait(), s.group != nil)
	}
}

func TestExposedServersNeedAuth(t *testing.T) {
	t.Parallel()
	// A name that does not resolve is not known to be loopback.
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1", "nowhere.invalid"} {
		for _, auth := range []Auth{{}, {User: "u"}, {Password: "p"}} {
			if _, err := StartServer(ServerConfig{Dir: t.TempDir(), Host: host, Auth: auth}); !errors.Is(err, ErrExposed) {
				t.Errorf("host %s with %+v: %v, want ErrExposed", host, auth, err)
			}
		}
	}
	for _, auth := range []Auth{{User: "u", Password: "p"}, {Token: "secret"}} {
		if _, err := StartServer(ServerConfig{Dir: t.TempDir(), Host: "0.0.0.0", Auth: auth}); !errors.Is(err, ErrPlain) {
			t.Errorf("%+v in the clear: %v, want ErrPlain", auth, err)
		}
		srv := startServer(t, ServerConfig{Host: "0.0.0.0", Auth: auth, Insecure: true})
		if host := must(url.Parse(srv.URL()))(t).Hostname(); host != "127.0.0.1" {
			t.Errorf("the URL of a server on all addresses names %s, want one that can be connected to", host)
		}
		nc := must(srv.Connect())(t)
		openStore(t, nc, Layout{})
		t.Cleanup(nc.Close)
	}
	for _, host := range []string{"localhost", "127.0.0.1", ""} {
		srv := startServer(t, ServerConfig{Host: host})
		connect(t, srv.URL())
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	srv := startServer(t, ServerConfig{Connections: 2})
	connect(t, srv.URL())
	connect(t, srv.URL())
	if nc, err := nats.Connect(srv.URL()); err == nil { // the server's word may come before or after it has shut the door
		nc.Close()
		t.Error("a third connection where two may be")
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	srv := startServer(t, ServerConfig{Auth: Auth{User: "ann", Password: "right"}})
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
		nc, err := Connect(ConnectConfig{Server: srv.URL(), User: c.user, Password: c.password, Timeout: 2 * time.Second, Name: "test", Log: zerolog.Nop()})
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
	srv = startServer(t, ServerConfig{Auth: Auth{Token: "secret"}})
	nc := must(Connect(ConnectConfig{Server: srv.URL(), User: "secret"}))(t)
	nc.Close()
	if _, err := Connect(ConnectConfig{Server: srv.URL(), User: "guess"}); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestConnectSaysWhere(t *testing.T) {
	t.Parallel()
	free := must(freePorts(1))(t)[0]
	where := "nats://127.0.0.1:" + strconv.Itoa(free)
	if _, err := Connect(ConnectConfig{Server: where, Timeout: time.Second}); err == nil || !strings.Contains(err.Error(), where) {
		t.Errorf("Connect where nobody listens: %v, want an error that names %s", err, where)
	}
	if _, err := Connect(ConnectConfig{Context: "no-such-context-anywhere"}); err == nil || !strings.Contains(err.Error(), "no-such-context") {
		t.Errorf("Connect with an unknown context: %v, want an error that names it", err)
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, ServerConfig{}), startServer(t, ServerConfig{}) // 0: each its own
	if a.URL() == b.URL() {
		t.Fatalf("two servers at %s", a.URL())
	}
	port := must(strconv.Atoi(must(url.Parse(a.URL()))(t).Port()))(t)
	dir := t.TempDir()
	if _, err := StartServer(ServerConfig{Dir: dir, Port: port}); !errors.Is(err, ErrPort) {
		t.Errorf("a server on a port that is taken: %v, want ErrPort", err)
	}
	a.Stop()
	again := must(StartServer(ServerConfig{Dir: dir, Port: port}))(t) // the failure has not kept the lock
	defer again.Stop()
	if again.URL() != a.URL() && !strings.HasSuffix(again.URL(), ":"+strconv.Itoa(port)) {
		t.Errorf("the URL is %s, want port %d", again.URL(), port)
	}
}

func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := StartServer(ServerConfig{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as data directory: %v, want an error that names it", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	srv := startServer(t, ServerConfig{TLSCert: cert, TLSKey: key})
	if !strings.HasPrefix(srv.URL(), "tls://") {
		t.Errorf("the URL is %s, want tls://", srv.URL())
	}
	nc := must(Connect(ConnectConfig{Server: srv.URL(), TLSCA: cert}))(t)
	t.Cleanup(nc.Close)
	openStore(t, nc, Layout{})
	if nc, err := Connect(ConnectConfig{Server: srv.URL()}); err == nil {
		nc.Close()
		t.Error("a server with an unknown certificate was trusted")
	}
	inside := must(srv.Connect())(t)
	t.Cleanup(inside.Close)
	openStore(t, inside, Layout{})
	if _, err := StartServer(ServerConfig{Dir: t.TempDir(), TLSCert: cert}); err == nil {
		t.Error("a certificate without a key was taken")
	}
}

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	secret := must(x509.MarshalECPrivateKey(private))(t)
	dir := t.TempDir()
	write := func(name, kind string, bytes []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "EC PRIVATE KEY", secret)
}

func TestNoJetStream(t *testing.T) {
	t.Parallel()
	ns := must(newTestServer("listen: 127.0.0.1:-1", make(chan string, 1)))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, connect(t, ns.ClientURL()), Layout{}); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("Open on a server without JetStream: %v, want ErrNoJetStream", err)
	}
}
