package promises

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/job"
)

// withExim has the tests of mail send it by Debian's exim, with TLS; without it a small server stands in, which has none.
var withExim = flag.Bool("exim", false, "send mail by exim")

// post is a mail server that has not started, and the mails that it has taken: files in a maildir. It refuses those
// to gone@example.org while there is a file refuses.
type post struct {
	*harness.Place
	dir  string
	port int
	// TLS is how it is asked for that.
	TLS  string
	took atomic.Int64
}

func newPost(p *harness.Place) *post {
	p.Helper()
	dir, err := os.MkdirTemp("", "mr-mail-") // for exim's user
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &post{Place: p, dir: dir, port: testkit.Port(p), TLS: "none"}
	if *withExim {
		s.TLS = "starttls"
		s.certify()
		p.Let("SSL_CERT_FILE", filepath.Join(dir, "cert.pem"))
	}
	return s
}

// target is a target of notices to some people.
func (s *post) target(name, tls string, to ...string) string {
	return fmt.Sprintf("  %s: {mail: {host: 127.0.0.1, port: %d, tls: %s, from: a@example.org, to: [%s]}, collect: 0s, buttons: true}\n",
		name, s.port, tls, strings.Join(to, ", "))
}

// certify makes the certificate that exim shows, and programs here trust.
func (s *post) certify() {
	s.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		s.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.example.org"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		s.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		s.put(name, string(pem.EncodeToMemory(block)))
	}
}

func (s *post) put(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil { // exim's user reads it
		s.Fatal(err)
	}
}

// open starts the server.
func (s *post) open() {
	s.Helper()
	if *withExim {
		s.exim()
		return
	}
	if err := os.MkdirAll(filepath.Join(s.dir, "mails/new"), 0o700); err != nil {
		s.Fatal(err)
	}
	var l net.Listener
	s.Until("its port is free", func() (free bool) { // a process that just starts may hold what was open here
		var err error
		l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
		return err == nil
	})
	s.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
}

func (s *post) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewScanner(c)
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	say("220 mail.test ESMTP")
	var text strings.Builder
	for data := false; in.Scan(); {
		switch line := in.Text(); {
		case data && line == ".":
			data = false
			s.put(fmt.Sprint("mails/new/", s.took.Add(1)), text.String())
			text.Reset()
			say("250 taken")
		case data:
			text.WriteString(line + "\n")
		case line == "DATA":
			data = true
			say("354 go on")
		case strings.HasPrefix(line, "RCPT TO:<gone@") && s.refuses():
			say("550 nobody is here")
		case line == "QUIT":
			say("221 bye")
			return
		default:
			say("250 mail.test")
		}
	}
}

func (s *post) refuses() bool {
	_, err := os.Stat(filepath.Join(s.dir, "refuses"))
	return err == nil
}

// eximConfig is for a server of this user alone, which asks no other one for anything.
const eximConfig = `
primary_hostname = mail.example.org
spool_directory = DIR/spool
log_file_path = DIR/%slog
pid_file_path = DIR/pid
local_interfaces = <; 127.0.0.1
daemon_smtp_ports = PORT
daemon_startup_sleep = 1s
deliver_drop_privilege
host_lookup =
rfc1413_hosts =
keep_environment =
tls_advertise_hosts = *
tls_certificate = DIR/cert.pem
tls_privatekey = DIR/key.pem
acl_smtp_rcpt = to

begin acl
to:
  deny local_parts = gone
       condition = ${if exists{DIR/refuses}}
       message = nobody is here
  accept

begin routers
here:
  driver = accept
  transport = maildir

begin transports
maildir:
  driver = appendfile
  directory = DIR/mails
  maildir_format
`

// exim starts exim as its own user: it serves nobody else but root.
func (s *post) exim() {
	s.Helper()
	u, err := user.Lookup("Debian-exim")
	if err != nil {
		s.Fatal(".ci/databases installs exim: ", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	as := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(s.dir, uid, gid); err != nil {
		s.Fatal("only root starts exim: ", err)
	}
	s.put("config", strings.NewReplacer("DIR", s.dir, "PORT", strconv.Itoa(s.port)).Replace(eximConfig))
	cmd := exec.Command("/usr/sbin/exim4", "-C", filepath.Join(s.dir, "config"), "-bdf")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
	var said harness.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second // what delivers holds them a moment longer
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	s.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if log, err := os.ReadFile(filepath.Join(s.dir, "mainlog")); s.Failed() && err == nil {
			s.Logf("exim says:\n%s%s", said.String(), log)
		}
	})
}

// mails are those that have all of some texts.
func (s *post) mails(with ...string) (found []string) {
	s.Helper()
	all, err := filepath.Glob(filepath.Join(s.dir, "mails/new/*"))
	if err != nil {
		s.Fatal(err)
	}
	for _, name := range all {
		mail, err := os.ReadFile(name)
		if err != nil {
			s.Fatal(err)
		}
		has := true
		for _, text := range with {
			has = has && strings.Contains(string(mail), text)
		}
		if has {
			found = append(found, string(mail))
		}
	}
	return found
}

// TestAMailWaitsForItsServer sends mail while no server takes it. The notice is in the list of what needs a person,
// and arrives once when the server is there.
func TestAMailWaitsForItsServer(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 5*time.Second)
	s := newPost(p)
	p.Write("notify.yaml", "targets:\n"+s.target("oncall", s.TLS, "b@example.org"))
	p.Write("job.yaml", "name: backup\nrun: 'echo no space; exit 7'\nnotify: {to: oncall}\n")
	p.Dev("--notify", "notify.yaml")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Try("run", "backup", "--wait")
	p.Until("people are told that a notice cannot be sent", func() bool {
		return strings.Contains(p.Run("attention"), "not told")
	})
	s.open()
	p.Until("the mail comes", func() bool { return len(s.mails()) > 0 })
	p.Until("nothing is left to send", func() bool { return !strings.Contains(p.Run("attention"), "not told") })
	want := []string{"Subject: backup failed", "To: b@example.org", "Exit code 7", "  no space\n", "/tasks/", "Retry: http://127.0.0.1:"}
	if *withExim {
		want = append(want, "esmtps ") // by TLS
	}
	if all := s.mails(); len(all) != 1 || len(s.mails(want...)) != 1 {
		t.Errorf("want one mail with %q, got %q", want, all)
	}
	if out := p.Run("task", "ls", "--queue", job.NoticeQueue, "--state", task.Finished.String()); !strings.Contains(out, "1 task") {
		t.Errorf("the notices are %s", out)
	}
}

// TestARefusedMail has a server refuse the mail to one of two people. The other one gets it once, the operator
// learns what the server says, and when it takes the mail that goes out, too.
func TestARefusedMail(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 5*time.Second)
	s := newPost(p)
	p.Write("notify.yaml", "targets:\n"+s.target("oncall", "none", "b@example.org", "gone@example.org"))
	p.Write("job.yaml", "name: backup\nrun: exit 7\nnotify: {to: oncall}\n")
	s.put("refuses", "")
	s.open()
	p.Dev("--notify", "notify.yaml")
	p.Run("job", "apply", "-f", "job.yaml")
	p.Try("run", "backup", "--wait")
	p.Until("people are told what the server says", func() bool {
		return strings.Contains(strings.Join(strings.Fields(p.Run("attention")), " "), "nobody is here")
	})
	if err := os.Remove(filepath.Join(s.dir, "refuses")); err != nil {
		t.Fatal(err)
	}
	p.Until("the other mail comes", func() bool { return len(s.mails("To: gone@example.org")) > 0 })
	p.Until("nothing is left to send", func() bool { return !strings.Contains(p.Run("attention"), "not told") })
	if all := s.mails("Subject: backup failed"); len(all) != 2 || len(s.mails("To: b@example.org")) != 1 {
		t.Errorf("want one mail for each, got %q", all)
	}
}
