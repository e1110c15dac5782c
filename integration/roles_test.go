package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"

	"millrace/client"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// What `millrace nats permissions` prints is enough: here everything runs under it, and what the
// NATS server refuses fails the test.

// guardedServer is a NATS server with an account for each test, and in it a user for each role.
type guardedServer struct {
	ns  *server.Server
	log *refusals
}

const rolePassword = "secret"

// guard starts a server with accounts that nobody may do more in than the table of rights grants.
func guard(t testing.TB, accounts ...jet.Account) *guardedServer {
	t.Helper()
	block, err := jet.AccountsConfig(accounts...)
	if err != nil {
		t.Fatal(err)
	}
	var config strings.Builder
	for _, a := range accounts {
		for _, u := range a.Users {
			fmt.Fprintf(&config, "%s: %s\n", u.PasswordVariable(), rolePassword)
		}
	}
	fmt.Fprintf(&config, "listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\nmax_payload: 8MB\n%s", t.TempDir(), block)
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("the block is no configuration of a NATS server: %v\n%s", err, block)
	}
	opts.NoSigs = true
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	g := &guardedServer{ns: ns, log: &refusals{}}
	ns.SetLoggerV2(g.log, false, false, false)
	ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the NATS server is not ready")
	}
	return g
}

// refusals is a server's log of which only violations of permissions are kept.
type refusals struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (r *refusals) Errorf(format string, v ...any) {
	if line := fmt.Sprintf(format, v...); strings.Contains(line, "Violation") {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, line)
	}
}
func (r *refusals) Noticef(string, ...any) {}
func (r *refusals) Warnf(string, ...any)   {}
func (r *refusals) Fatalf(string, ...any)  {}
func (r *refusals) Debugf(string, ...any)  {}
func (r *refusals) Tracef(string, ...any)  {}

var (
	refusedBy = regexp.MustCompile(`cid:(\d+)`)
	refused   = regexp.MustCompile(`(Publish|Subscription) Violation - (?:Subject|Reply) "([^"]*)"`)
)

// refused lists what the server has refused to users of an account, each once and in words.
func (g *guardedServer) refused(account string) (words []string) {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	for _, line := range g.log.lines {
		who, of := "a user that has left", account
		if m := refusedBy.FindStringSubmatch(line); m != nil {
			id, _ := strconv.ParseUint(m[1], 10, 64) // digits
			if c, err := g.ns.Connz(&server.ConnzOptions{CID: id, Username: true, State: server.ConnAll}); err == nil && len(c.Conns) == 1 {
				who, of = c.Conns[0].AuthorizedUser+" ("+c.Conns[0].Name+")", c.Conns[0].Account
			}
		}
		if of != account {
			continue
		}
		said := line
		if m := refused.FindStringSubmatch(line); m != nil {
			said = fmt.Sprintf("%s of %s", strings.ToLower(m[1]), m[2])
		}
		if said = who + " is refused: " + said; !slices.Contains(words, said) {
			words = append(words, said)
		}
	}
	return words
}

// unrefused fails the test if the server has refused anything to users of an account.
func (g *guardedServer) unrefused(t testing.TB, account string) {
	t.Helper()
	for _, what := range g.refused(account) {
		t.Errorf("%s\nif the role is to have this right, add the subject with its reason to the table `rights` in jet/rights.go; else end what asks for it", what)
	}
}

// accountFor makes an account of its own with a user for each role and node.
func accountFor(name string, nodes ...string) jet.Account {
	a := jet.Account{Name: name}
	for _, r := range jet.Roles() {
		if r != jet.RoleWorker {
			a.Users = append(a.Users, jet.User{Name: roleUser(name, r, ""), Role: r})
		}
	}
	for _, n := range nodes {
		a.Users = append(a.Users, jet.User{Name: roleUser(name, jet.RoleWorker, n), Role: jet.RoleWorker, Node: node.ID(n)})
	}
	return a
}

// roleUser is the name of a user: no two accounts of a server may share one.
func roleUser(account string, r jet.Role, node string) string {
	return strings.TrimSuffix(account+"-"+string(r)+"-"+node, "-")
}

// as is the environment of a process that is this user.
func (g *guardedServer) as(user string) []string {
	return []string{"NATS_USER=" + user, "NATS_PASSWORD=" + rolePassword, "NATS_INBOX_PREFIX=" + jet.DefaultInbox(user)}
}

// under has all processes of the place be the client of an account, unless they say who else they are.
func (p *place) under(g *guardedServer, account string) {
	p.env = append(p.env, g.as(roleUser(account, jet.RoleClient, ""))...)
}

// ownServers are the scripts that are about no server, or about one that they bring themselves.
var ownServers = []string{"about", "demo", "dev", "exposed", "own"}

var nodeFlag = regexp.MustCompile(`(?m)^(?:!? ?exec|exits \d+) millrace (?:dev|worker) .*--name (\S+)`)

// TestScriptsByRole types the scripts once more, against a NATS server on which each process has
// the rights of its role and no others. `millrace dev` is a server and a worker there.
func TestScriptsByRole(t *testing.T) {
	if !*long { // else it has the machine to itself: it is as much as TestScripts
		t.Parallel()
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scripts")
	}
	var typed []string
	var accounts []jet.Account
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if slices.Contains(ownServers, name) || !*long && !slices.Contains(quickScripts, name) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var nodes []string
		for _, m := range nodeFlag.FindAllStringSubmatch(string(text), -1) {
			if node.ID(m[1]).Validate() == nil && !slices.Contains(nodes, m[1]) {
				nodes = append(nodes, m[1])
			}
		}
		typed, accounts = append(typed, file), append(accounts, accountFor(name, nodes...))
	}
	g := guard(t, accounts...)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stands, err := filepath.Abs("testdata/stand-in")
	if err != nil {
		t.Fatal(err)
	}
	play(t, typed, func(e *testscript.Env) error {
		t := e.T().(scripts).T
		account := filepath.Base(t.Name())
		p := newPlaceAt(t, e.WorkDir)
		p.under(g, account)
		p.setenv("PATH", stands+string(os.PathListSeparator)+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
		for name, value := range map[string]string{"IN": self, "FOR": binary(t), "AS": account, "AT": e.WorkDir, "URL": g.ns.ClientURL()} {
			p.setenv("STANDS_"+name, value)
		}
		e.Defer(func() { g.unrefused(t, account) })
		return settle(e, p)
	})
}

// quickScripts are those that are played without -long: together they take some seconds.
var quickScripts = []string{"run", "queue", "nodes"}

// standsIn tells whether this process is to be millrace rather than a test.
func standsIn() bool { return os.Getenv("STANDING_IN") != "" }

// workerFlags are the flags of `millrace dev` that are meant for its worker alone, serverFlags those for the server.
var (
	workerFlags = []string{"--name", "--queue", "--slots", "--label", "--files-cache", "--files-limit", "--artifacts-limit"}
	serverFlags = []string{"--data"}
)

// standInMain is `millrace dev`, `server` or `worker` under the rights of its roles.
func standInMain(args []string) int {
	s := &standing{url: os.Getenv("STANDS_URL"), account: os.Getenv("STANDS_AS"), program: os.Getenv("STANDS_FOR")}
	_ = os.Unsetenv("STANDING_IN")
	if os.Getenv("NATS_URL") == "" {
		_ = os.Setenv("NATS_URL", s.url)
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	var server, worker []string
	data, name := "", ""
	for i := 1; i < len(args); i++ {
		flag := args[i]
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		i++ // every flag of the scripts has a value
		switch {
		case flag == "--port":
			continue
		case flag == "--data":
			data = value
		case flag == "--name":
			name = value
		}
		if !slices.Contains(workerFlags, flag) {
			server = append(server, flag, value)
		}
		if !slices.Contains(serverFlags, flag) {
			worker = append(worker, flag, value)
		}
	}
	profile := "prod"
	if args[0] == "dev" {
		profile = "dev"
	}
	if os.Getenv("MILLRACE_PROFILE") == "" {
		_ = os.Setenv("MILLRACE_PROFILE", profile)
	}
	if args[0] != "worker" {
		s.start(roleUser(s.account, jet.RoleServer, ""), "Millrace serves", append([]string{"server"}, server...))
	}
	if args[0] != "server" && s.code == 0 {
		as := roleUser(s.account, jet.RoleWorker, name)
		if node.ID(name).Validate() != nil { // it is to be refused for that
			as = roleUser(s.account, jet.RoleClient, "")
		}
		s.start(as, "Worker on", append([]string{"worker"}, worker...))
	}
	if data != "" && s.code == 0 {
		file := filepath.Join(data, "nats.url")
		if err := os.WriteFile(file, []byte(s.url+"\n"), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			s.code = 1
		}
		defer func() { _ = os.Remove(file) }()
	}
	ended := make(chan struct{})
	go func() {
		for _, c := range s.running {
			<-c.ended
		}
		close(ended)
	}()
	if s.code == 0 {
		select {
		case <-signals:
		case <-ended:
		}
	}
	for _, c := range slices.Backward(s.running) { // the worker says goodbye to a server that hears it
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-c.ended
		s.code = max(s.code, c.cmd.ProcessState.ExitCode())
	}
	return s.code
}

// standing are the processes that one stands for.
type standing struct {
	url, account, program string
	running               []*stood
	code                  int
}

type stood struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a process as a user, and waits until it says that it is ready.
func (s *standing) start(user, ready string, args []string) {
	said := &watched{word: ready, heard: make(chan struct{})}
	cmd := exec.Command(s.program, args...)
	cmd.Env = append(os.Environ(), "NATS_USER="+user, "NATS_INBOX_PREFIX="+jet.DefaultInbox(user))
	cmd.Stdout, cmd.Stderr = os.Stdout, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // its guard holds stderr a moment longer
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		s.code = 1
		return
	}
	c := &stood{cmd: cmd, ended: make(chan struct{})}
	s.running = append(s.running, c)
	go func() {
		defer close(c.ended)
		_ = cmd.Wait() // ProcessState has it
	}()
	select {
	case <-said.heard:
	case <-c.ended:
		s.code = cmd.ProcessState.ExitCode()
	}
}

// watched passes on what is written to stderr and waits for a word in it.
type watched struct {
	word  string
	heard chan struct{}
	said  bytes.Buffer
	found bool
}

func (w *watched) Write(b []byte) (int, error) {
	if !w.found {
		w.said.Write(b)
		if w.found = strings.Contains(w.said.String(), w.word); w.found {
			close(w.heard)
		}
	}
	return os.Stderr.Write(b)
}

// dialAs connects as a user.
func (p *place) dialAs(g *guardedServer, user string) *nats.Conn {
	p.Helper()
	nc, err := nats.Connect(g.ns.ClientURL(), nats.UserInfo(user, rolePassword), nats.CustomInboxPrefix(jet.DefaultInbox(user)))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(nc.Close)
	return nc
}

// What the server refuses is seen, and told with who it was and what to do.
func TestRefusalsAreSeen(t *testing.T) {
	t.Parallel()
	g := guard(t, accountFor("seen", "here"), accountFor("other"))
	p := newPlace(t, 2*time.Second)
	nc := p.dialAs(g, roleUser("seen", jet.RoleAsks, ""))
	if err := nc.Publish("mr.task.x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync("mr.task.*"); err != nil {
		t.Fatal(err)
	}
	p.until("both are refused", func() bool { return len(g.refused("seen")) == 2 })
	want := []string{"seen-asks () is refused: publish of mr.task.x", "seen-asks () is refused: subscription of mr.task.*"}
	if got := g.refused("seen"); !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if got := g.refused("other"); len(got) > 0 {
		t.Errorf("another account was refused %q", got)
	}
}

// A server, a worker, a client and one who only asks do their work with what their roles may,
// and who may not is told so.
func TestRoles(t *testing.T) {
	t.Parallel()
	const account = "roles"
	g := guard(t, accountFor(account, "here"))
	p := newPlace(t, 2*time.Second)
	p.setenv("NATS_URL", g.ns.ClientURL())
	before := p.env
	as := func(role jet.Role, node string) {
		p.env = append(slices.Clip(before), g.as(roleUser(account, role, node))...)
	}
	as(jet.RoleServer, "")
	server := p.start("server", "--data", data)
	server.until("the server is ready", func() bool { return strings.Contains(server.said.String(), "Millrace serves") })
	as(jet.RoleWorker, "here")
	worker := p.worker("here")

	as(jet.RoleClient, "")
	p.run("node", "wait", "here")
	p.run("run", "--wait", "--priority", "8", "--unique", "one", "--labels", "node=here", "--", "true")

	nc := p.dialAs(g, roleUser(account, jet.RoleAsks, ""))
	receipt := ask[client.Receipt](p, nc, "mr.api.task.submit", `{"spec":{"run":{"argv":["true"]}},"priority":3}`)
	p.until("the task has ended", func() bool {
		return ask[task.Task](p, nc, "mr.api.task.get", `{"id":"`+string(receipt.ID)+`"}`).State == task.Finished
	})
	for subject, request := range map[string]string{
		"mr.api.task.list": `{}`, "mr.api.node.list": `{}`, "mr.api.queue.list": `{}`, "mr.api.schedule.list": `{}`, "mr.api.limit.list": `{}`, "mr.api.dead.list": `{}`,
		"mr.api.node.cordon": `{"id":"here"}`, "mr.api.queue.pause": `{"queue":"default"}`,
	} {
		ask[any](p, nc, subject, request)
	}
	g.unrefused(t, account)

	as(jet.RoleAsks, "")
	start := time.Now()
	r := p.try("run", "--", "true")
	if r.code != 5 || !strings.Contains(r.errs, "permission to publish to $JS.API.STREAM.INFO.MR_LOG is missing") || !strings.Contains(r.errs, "hint: `millrace nats permissions`") {
		t.Errorf("exit code %d, %s", r.code, r.errs)
	}
	p.setenv("NATS_INBOX_PREFIX", "_INBOX")
	r = p.try("task", "ls")
	if r.code != 5 || !strings.Contains(r.errs, "permission to subscribe to _INBOX.") || !strings.Contains(r.errs, "--inbox-prefix") {
		t.Errorf("exit code %d, %s", r.code, r.errs)
	}
	if took := time.Since(start); took > patience/4 {
		t.Errorf("it took %v to say so", took)
	}
	worker.stop()
	server.stop()
}

// The page shows exactly what the command prints.
func TestDocsOfPermissions(t *testing.T) {
	t.Parallel()
	const command = "millrace nats permissions --node crawler-7"
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```sh\n"+command+"\n```\n\n```\n")
	block, _, ended := strings.Cut(block, "```\n")
	printed := newPlace(t, 2*time.Second).run(strings.Fields(command)[1:]...) + "\n"
	if *update && found && ended {
		page = []byte(strings.Replace(string(page), block, printed, 1))
		if err := os.WriteFile("../docs/operations.md", page, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !found || !ended || block != printed {
		t.Errorf("docs/operations.md shows\n%s\nand `%s` prints\n%s\nrun this test with -update", block, command, printed)
	}
}
