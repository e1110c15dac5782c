package embed

import (
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

	"millrace/events/jet"

	"github.com/nats-io/nats.go"
)

func TestDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startServer(t, Config{Dir: dir})
	if _, err := Start(Config{Dir: dir}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("a second server on the same directory: %v, want ErrLocked and the directory", err)
	}
	s := openStore(t, connect(t, first.URL())) // the first is none the worse for it
	if err := s.Takes(within(t), 0); err != nil {
		t.Fatal(err)
	}
	stopServer(t, first)
	first.Stop() // twice is harmless
	startServer(t, Config{Dir: dir})
}

func TestExposedServersNeedAuth(t *testing.T) {
	t.Parallel()
	// A name that does not resolve is not known to be loopback.
	for _, host := range []string{"0.0.0.0", "::", "192.0.2.1", "nowhere.invalid"} {
		for _, auth := range []Auth{{}, {User: "u"}, {Password: "p"}} {
			if _, err := Start(Config{Dir: t.TempDir(), Host: host, Auth: auth}); !errors.Is(err, ErrExposed) {
				t.Errorf("host %s with %+v: %v, want ErrExposed", host, auth, err)
			}
		}
	}
	for _, auth := range []Auth{{User: "u", Password: "p"}, {Token: "secret"}} {
		if _, err := Start(Config{Dir: t.TempDir(), Host: "0.0.0.0", Auth: auth}); !errors.Is(err, ErrPlain) {
			t.Errorf("%+v in the clear: %v, want ErrPlain", auth, err)
		}
		srv := startServer(t, Config{Host: "0.0.0.0", Auth: auth, Insecure: true})
		if host := must(url.Parse(srv.URL()))(t).Hostname(); host != "127.0.0.1" {
			t.Errorf("the URL of a server on all addresses names %s, want one that can be connected to", host)
		}
		nc := must(srv.Connect())(t)
		openStore(t, nc)
		t.Cleanup(nc.Close)
	}
	for _, host := range []string{"localhost", "127.0.0.1", ""} {
		srv := startServer(t, Config{Host: host})
		connect(t, srv.URL())
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	srv := startServer(t, Config{Connections: 2})
	connect(t, srv.URL())
	connect(t, srv.URL())
	if nc, err := nats.Connect(srv.URL()); err == nil { // the server's word may come before or after it has shut the door
		nc.Close()
		t.Error("a third connection where two may be")
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	a, b := startServer(t, Config{}), startServer(t, Config{}) // 0: each its own
	if a.URL() == b.URL() {
		t.Fatalf("two servers at %s", a.URL())
	}
	dir := t.TempDir()
	for tries := 10; ; tries-- {
		port := must(strconv.Atoi(must(url.Parse(a.URL()))(t).Port()))(t)
		if _, err := Start(Config{Dir: dir, Port: port}); !errors.Is(err, ErrPort) {
			t.Fatalf("a server on a port that is taken: %v, want ErrPort", err)
		}
		a.Stop()
		again, err := Start(Config{Dir: dir, Port: port}) // the failure has not kept the lock
		if errors.Is(err, ErrPort) && tries > 0 {
			a = startServer(t, Config{}) // another process on this machine has the port by now
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stopServer(t, again) })
		if !strings.HasSuffix(again.URL(), ":"+strconv.Itoa(port)) {
			t.Errorf("the URL is %s, want port %d", again.URL(), port)
		}
		return
	}
}

func TestUnusableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Dir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as data directory: %v, want an error that names it", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	srv := startServer(t, Config{TLSCert: cert, TLSKey: key})
	if !strings.HasPrefix(srv.URL(), "tls://") {
		t.Errorf("the URL is %s, want tls://", srv.URL())
	}
	nc := must(jet.Connect(jet.ConnectConfig{Server: srv.URL(), TLSCA: cert}))(t)
	t.Cleanup(nc.Close)
	openStore(t, nc)
	if nc, err := jet.Connect(jet.ConnectConfig{Server: srv.URL()}); err == nil {
		nc.Close()
		t.Error("a server with an unknown certificate was trusted")
	}
	inside := must(srv.Connect())(t)
	t.Cleanup(inside.Close)
	openStore(t, inside)
	if _, err := Start(Config{Dir: t.TempDir(), TLSCert: cert}); err == nil {
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
