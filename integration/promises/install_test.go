package promises

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"millrace/events/jet/embed"
	"millrace/integration/harness"
)

// blocks returns the fenced blocks of one language on a page of the documentation.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	return all
}

// unit is what a unit file says: the values of each directive.
type unit map[string][]string

func unitOf(text string) unit {
	u := unit{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			u[name] = append(u[name], value)
		}
	}
	return u
}

// manager starts units as systemd does, as far as a test may: the same user, folders of its own.
type manager struct {
	*harness.Place
	root string // where the folders of units are, instead of /var/lib and the like
}

// start starts a unit and waits until it says that it is ready. The words of change replace those of
// the unit.
func (m manager) start(u unit, change map[string]string) *harness.Process {
	m.Helper()
	at := func(base, name string) string {
		dir := filepath.Join(m.root, base, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			m.Fatal(err)
		}
		return dir
	}
	environment := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": at("home", u["User"][0]),
		"STATE_DIRECTORY": at("lib", u["StateDirectory"][0]), "CREDENTIALS_DIRECTORY": at("credentials", u["User"][0]),
	}
	change["/var/lib/"+u["StateDirectory"][0]] = environment["STATE_DIRECTORY"]
	for _, name := range u["CacheDirectory"] {
		environment["CACHE_DIRECTORY"] = at("cache", name)
	}
	for _, credential := range u["LoadCredential"] {
		name, file, _ := strings.Cut(credential, ":")
		secret, err := os.ReadFile(filepath.Join(m.root, file))
		if err == nil {
			err = os.WriteFile(filepath.Join(environment["CREDENTIALS_DIRECTORY"], name), secret, 0o600)
		}
		if err != nil {
			m.Fatal(err)
		}
	}
	socket := filepath.Join(m.root, "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		m.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	defer func() { _ = os.Remove(socket) }()
	environment["NOTIFY_SOCKET"] = socket

	words := strings.Fields(u["ExecStart"][0])
	if words[0] != "/usr/local/bin/millrace" {
		m.Fatalf("the unit starts %s", words[0])
	}
	for i, w := range words {
		w = os.Expand(w, func(name string) string { return environment[name] })
		for old, now := range change {
			w = strings.ReplaceAll(w, old, now)
		}
		words[i] = w
	}
	m.Env = []string{m.Mark}
	for name, value := range environment {
		m.Let(name, value)
	}
	s := m.Start(words[1:]...)
	said := make([]byte, 64)
	s.Until("the unit is ready", func() bool {
		_ = listener.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // then it looks whether the process lives
		n, err := listener.Read(said)
		return err == nil && string(said[:n]) == "READY=1"
	})
	return s
}

// The units on the page of installation work as written: server and worker start from nothing, know
// each other by the token, come back after a crash with what they had, and drain.
func TestUnits(t *testing.T) {
	t.Parallel()
	var units []unit
	for _, text := range blocks(t, "install.md", "ini") {
		units = append(units, unitOf(text))
	}
	if len(units) != 2 || !slices.Contains(units[0]["Type"], "notify") || !slices.Contains(units[1]["Type"], "notify") {
		t.Fatalf("the page has these units: %v", units)
	}
	root, err := os.MkdirTemp("", "u") // short: the name of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	m := manager{harness.New(t, 2*time.Second), root}
	if err := os.MkdirAll(filepath.Join(root, "etc/millrace"), 0o700); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(root, "etc/millrace/token")
	if err := os.WriteFile(token, []byte("c2VjcmV0IG9mIHRoZSB0ZXN0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serving := map[string]string{"127.0.0.1:9464": "127.0.0.1:0"}
	exec := units[0]["ExecStart"][0]
	units[0]["ExecStart"][0] = exec + " --port 0"
	s := m.start(units[0], serving)
	says := regexp.MustCompile(`ready at nats://(\S+:(\d+)),`)
	var address []string
	s.Until("the server says where it is", func() bool {
		address = says.FindStringSubmatch(s.Said.String())
		return address != nil
	})
	w := m.start(units[1], map[string]string{"127.0.0.1:9465": "127.0.0.1:0", "127.0.0.1:4222": address[1]})

	person := []string{"--server", "nats://" + address[1], "--token-file", token}
	run := func(args ...string) string { return m.Run(append(args, person...)...) }
	run("run", "--wait", "--shell", `test -z "$NOTIFY_SOCKET$CREDENTIALS_DIRECTORY"`)
	if r := m.Try("node", "ls", "--server", "nats://"+address[1]); r.Code == 0 {
		t.Errorf("without the token: %s", r.Out)
	}
	s.Kill()
	units[0]["ExecStart"][0] = exec + " --port " + address[2]
	again := m.start(units[0], serving)
	run("run", "--wait", "--shell", "true")
	if n := strings.Count(run("task", "ls", "--names"), "\n") + 1; n != 2 {
		t.Errorf("after the crash there are %d tasks, want 2", n)
	}
	w.Stop()
	again.Stop()
}

// The file on the page of the cluster works on three servers, with the changes that the page names
// and the accounts that the command there prints: the streams have three replicas, and work goes on
// without one of the servers.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 6*time.Second)
	shown := blocks(t, "cluster.md", "conf")
	if len(shown) != 1 {
		t.Fatalf("the page has %d files", len(shown))
	}
	own := regexp.MustCompile(`(server_name: |listen: ")n1`)
	files := []string{shown[0], own.ReplaceAllString(shown[0], "${1}n2"), own.ReplaceAllString(shown[0], "${1}n3")}
	accounts := p.Run("nats", "permissions", "--node", "crawler-7,crawler-8")
	given := "" // what the environment gives the servers on the page
	for _, name := range regexp.MustCompile(`\$(\w+_PASSWORD)`).FindAllStringSubmatch(accounts, -1) {
		given += name[1] + ": secret\n"
	}
	p.Write("millrace-accounts.conf", given+accounts)
	p.Write("password", "secret")
	var servers []*server.Server
	for try := 0; servers == nil; try++ { // another process may take one of the ports first
		if servers = startPage(p, files, fmt.Sprint("store", try)); try == 5 {
			t.Fatal("the servers have not found each other")
		}
	}
	p.Let("MILLRACE_REPLICAS", "3")
	p.Let("MILLRACE_SYNC", "always")
	as := func(user string) []string {
		return []string{"--server", servers[0].ClientURL() + "," + servers[1].ClientURL() + "," + servers[2].ClientURL(), "--user", user, "--password-file", "password", "--inbox-prefix", "_INBOX_" + user}
	}
	s := p.Start(append([]string{"server", "--data", "data"}, as("server")...)...)
	s.Until("it serves", func() bool { return strings.Contains(s.Said.String(), "Millrace serves ") })
	w := p.Worker("crawler-7", as("crawler-7")...)
	run := func() { p.Run(append([]string{"run", "--wait"}, append(as("operator"), "--", "true")...)...) }
	run()
	servers[0].Shutdown()
	servers[0].WaitForShutdown()
	run()
	w.Stop()
	s.Stop()
}

// startPage starts the servers of the page on loopback, each with its data below a folder. It
// returns nil if they have found no leader.
func startPage(p *harness.Place, files []string, store string) (servers []*server.Server) {
	p.Helper()
	routes, err := embed.FreeAddresses(len(files))
	if err != nil {
		p.Fatal(err)
	}
	var change []string
	for i, route := range routes {
		host := fmt.Sprintf("n%d.example", i+1)
		change = append(change, host+":4222", "127.0.0.1:-1", host+":6222", route)
	}
	for i, text := range files {
		name := fmt.Sprintf("%s/n%d.conf", store, i+1)
		if err := os.MkdirAll(p.Path(store), 0o700); err != nil {
			p.Fatal(err)
		}
		p.Write(name, strings.NewReplacer(append(change, "/var/lib/nats", p.Path(fmt.Sprint(store, "/", i)), `include "`, `include "../`)...).Replace(text))
		opts, err := server.ProcessConfigFile(p.Path(name))
		if err != nil {
			p.Fatalf("%s: %v", name, err)
		}
		opts.NoSigs, opts.NoLog = true, true
		ns, err := server.NewServer(opts)
		if err != nil {
			p.Fatal(err)
		}
		ns.Start()
		p.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		servers = append(servers, ns)
	}
	if !harness.Poll(time.Minute, func() bool {
		return slices.ContainsFunc(servers, func(ns *server.Server) bool {
			return ns.JetStreamIsLeader() && len(ns.JetStreamClusterPeers()) == len(servers)
		})
	}) {
		return nil
	}
	return servers
}
