package promises

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

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// The permissions that `millrace nats permissions` prints are enough: here everything runs under
// them, and a refusal of the NATS server fails the test.

// guardedServer is a NATS server with an account for each test, and in it a user for each role.
type guardedServer struct {
	ns  *server.Server
	log *refusals
}

const rolePassword = "secret"

// guard starts a server with accounts in which no user may do more than the table of rights grants.
func guard(t testing.TB, accounts ...rights.Realm) *guardedServer {
	t.Helper()
	var config, block strings.Builder
	for _, a := range accounts {
		text, err := rights.RealmConfig(a)
		if err != nil {
			t.Fatal(err)
		}
		block.WriteString(text)
		for _, u := range a.Users {
			fmt.Fprintf(&config, "%s: %s\n", u.PasswordVariable(), rolePassword)
		}
	}
	fmt.Fprintf(&config, "listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q, max_file_store: 1TB }\nmax_payload: 8MB\naccounts {\n%s}\n", t.TempDir(), block.String())
	return guardWith(t, filepath.Join(t.TempDir(), "nats.conf"), config.String())
}

// guardWith starts a server with a configuration, which is written to a file.
func guardWith(t testing.TB, file, config string) *guardedServer {
	t.Helper()
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("this is no configuration of a NATS server: %v\n%s", err, config)
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
	if !ns.ReadyForConnections(harness.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	return g
}

// refusals keeps only the violations of permissions of a server's log.
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
		if !belongsTo(account, of) {
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

// belongsTo tells whether an account belongs to a realm.
func belongsTo(realm, account string) bool {
	r := rights.Realm{Name: realm}
	return slices.ContainsFunc(rights.All(), func(role rights.Role) bool { return r.AccountName(role) == account })
}

// unrefused fails the test if the server has refused anything to users of an account.
func (g *guardedServer) unrefused(t testing.TB, account string) {
	t.Helper()
	for _, what := range g.refused(account) {
		t.Errorf("%s\nif the role is to have this right, add the subject with its reason to the table `rights` in events/jet/rights/rights.go; else end what asks for it", what)
	}
}

// accountFor makes a realm of its own with a user for each role and node. It has a limit, as each of
// several realms should: without one its server tries how much it gets, and if several try at once,
// the NATS server promises more than it has and makes no stream any more.
func accountFor(name string, nodes ...string) rights.Realm {
	a := rights.Realm{Name: name, Store: "2GB"}
	for _, r := range rights.All() {
		if r != rights.Worker {
			a.Users = append(a.Users, rights.User{Name: roleUser(name, r, ""), Role: r})
		}
	}
	for _, n := range nodes {
		a.Users = append(a.Users, rights.User{Name: roleUser(name, rights.Worker, n), Role: rights.Worker, Node: node.ID(n)})
	}
	return a
}

// roleUser is the name of a user: no two accounts of a server may share one.
func roleUser(account string, r rights.Role, node string) string {
	return strings.TrimSuffix(account+"-"+string(r)+"-"+node, "-")
}

// as is the environment of a process that is this user.
func (g *guardedServer) as(user string) []string {
	return []string{"NATS_USER=" + user, "NATS_PASSWORD=" + rolePassword, "NATS_INBOX_PREFIX=" + rights.DefaultInbox(user)}
}

// underRights makes all processes of the place the operator of an account, unless they name another
// user.
func underRights(p *harness.Place, g *guardedServer, account string) {
	p.Env = append(p.Env, g.as(roleUser(account, rights.Operator, ""))...)
}

// ownServers are the scripts that need no server, or that start one themselves.
var ownServers = []string{"about", "demo", "dev", "exposed", "import", "imported", "own"}

var nodeFlag = regexp.MustCompile(`(?m)^(?:!? ?exec|exits \d+) millrace (?:dev|worker) .*--name (\S+)`)

// TestScriptsByRole types the scripts once more, against a NATS server on which each process has
// the rights of its role and no others. `millrace dev` is a server and a worker there. Without -long
// it types two of them.
func TestScriptsByRole(t *testing.T) {
	if !*harness.Long { // else it has the machine to itself: it is as much as TestScripts
		t.Parallel()
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scripts")
	}
	var typed []string
	var accounts []rights.Realm
	for _, file := range harness.Cases(t, files, "run.txt", "nodes.txt") {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if slices.Contains(ownServers, name) {
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
	harness.Play(t, typed, func(e *testscript.Env) error {
		t := e.T().(harness.Scripts).T
		account := filepath.Base(t.Name())
		p := harness.NewAt(t, e.WorkDir)
		underRights(p, g, account)
		p.Let("PATH", stands+string(os.PathListSeparator)+filepath.Dir(harness.Binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
		for name, value := range map[string]string{"IN": self, "FOR": harness.Binary(t), "AS": account, "AT": e.WorkDir, "URL": g.ns.ClientURL()} {
			p.Let("STANDS_"+name, value)
		}
		e.Defer(func() { g.unrefused(t, account) })
		return harness.Settle(e, p)
	})
}

// standsIn tells whether this process is to be millrace rather than a test.
func standsIn() bool { return os.Getenv("STANDING_IN") != "" }

// workerFlags are the flags of `millrace dev` that are meant for its worker alone, serverFlags
// those for the server.
var (
	workerFlags = []string{"--name", "--queue", "--slots", "--label", "--messages", "--spawn-children", "--files-cache", "--files-limit", "--artifacts-limit"}
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
		s.start(roleUser(s.account, rights.Server, ""), "Millrace serves", append([]string{"server"}, server...))
	}
	as := roleUser(s.account, rights.Worker, name)
	if node.ID(name).Validate() != nil { // it is to be refused for that
		as = roleUser(s.account, rights.Operator, "")
	}
	switch args[0] {
	case "worker": // it becomes the worker itself, so that a signal that kills it kills the worker
		err := syscall.Exec(s.program, append([]string{s.program}, args...), s.as(as))
		fmt.Fprintln(os.Stderr, err)
		return 1
	case "dev":
		if s.code == 0 {
			s.start(as, "Worker on", append([]string{"worker"}, worker...))
		}
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
	// The worker says goodbye while its server still listens.
	for _, c := range slices.Backward(s.running) {
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-c.ended
		s.code = max(s.code, c.cmd.ProcessState.ExitCode())
	}
	return s.code
}

// standing are the processes that one process stands for.
type standing struct {
	url, account, program string
	running               []*stood
	code                  int
}

type stood struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a process as a user, and waits until the process says that it is ready.
func (s *standing) start(user, ready string, args []string) {
	said := &watched{word: ready, heard: make(chan struct{})}
	cmd := exec.Command(s.program, args...)
	cmd.Env = s.as(user)
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
		_ = cmd.Wait() // ProcessState has the result
	}()
	select {
	case <-said.heard:
	case <-c.ended:
		s.code = cmd.ProcessState.ExitCode()
	}
}

// as is the environment of a process that is this user.
func (s *standing) as(user string) []string {
	cmd := exec.Command(s.program)
	cmd.Env = append(os.Environ(), "NATS_USER="+user, "NATS_INBOX_PREFIX="+rights.DefaultInbox(user))
	return cmd.Environ() // each name once: the last one holds
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
func dialAs(p *harness.Place, g *guardedServer, user string) *nats.Conn {
	p.Helper()
	nc, err := nats.Connect(g.ns.ClientURL(), nats.UserInfo(user, rolePassword), nats.CustomInboxPrefix(rights.DefaultInbox(user)),
		// The server's log has the error.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(nc.Close)
	return nc
}

// A refusal of the server is visible, with the refused user and the remedy.
func TestRefusalsAreSeen(t *testing.T) {
	t.Parallel()
	g := guard(t, accountFor("seen", "here"), accountFor("other"))
	p := harness.New(t, 2*time.Second)
	nc := dialAs(p, g, roleUser("seen", rights.Viewer, ""))
	if err := nc.Publish("mr.task.x", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync("mr.queue.>"); err != nil {
		t.Fatal(err)
	}
	p.Until("both are refused", func() bool { return len(g.refused("seen")) == 2 })
	want := []string{"seen-viewer () is refused: publish of mr.task.x", "seen-viewer () is refused: subscription of mr.queue.>"}
	if got := g.refused("seen"); !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	if got := g.refused("other"); len(got) > 0 {
		t.Errorf("another account was refused %q", got)
	}
}

// realm is a place whose NATS server has the printed rights, with a server and a worker on the node "here"; as
// changes who a command is, an operator at first.
func realm(t *testing.T, account string) (p *harness.Place, g *guardedServer, as func(role rights.Role, node string), server, worker *harness.Process) {
	t.Helper()
	g = guard(t, accountFor(account, "here"))
	p = harness.New(t, 2*time.Second)
	p.Let("NATS_URL", g.ns.ClientURL())
	before := p.Env
	as = func(role rights.Role, node string) {
		p.Env = append(slices.Clip(before), g.as(roleUser(account, role, node))...)
	}
	as(rights.Server, "")
	server = p.Start("server", "--data", harness.Data)
	server.Until("the server is ready", func() bool { return strings.Contains(server.Said.String(), "Millrace serves") })
	as(rights.Worker, "here")
	worker = p.Worker("here")
	as(rights.Operator, "")
	p.Run("node", "wait", "here")
	return p, g, as, server, worker
}

// Each role can do its work with its rights, and the NATS server refuses the rest.
func TestRoles(t *testing.T) {
	t.Parallel()
	const account = "roles"
	p, g, as, server, worker := realm(t, account)
	p.Run("run", "--wait", "--priority", "8", "--unique", "one", "--labels", "node=here", "--", "true")

	submitter := callerOf(p, g, roleUser(account, rights.Submitter, ""))
	receipt := askAs[client.Receipt](submitter, rights.TaskSubmit, `{"spec":{"run":{"argv":["true"]}},"priority":3}`)
	p.Until("the task has ended", func() bool {
		return askAs[task.Task](submitter, rights.TaskGet, `{"id":"`+string(receipt.ID)+`"}`).State == task.Finished
	})
	for _, verb := range rights.Verbs(rights.Owning) {
		askAs[any](submitter, verb, `{"id":"`+string(receipt.ID)+`"}`)
	}
	viewer := callerOf(p, g, roleUser(account, rights.Viewer, ""))
	operator := callerOf(p, g, roleUser(account, rights.Operator, ""))
	asked := func(c *caller, verb rights.Verb) task.State {
		made := askAs[client.Receipt](operator, rights.TaskSubmit, `{"spec":{"run":{"argv":["true"]},"signal":{"who":["`+c.user+`"]}}}`)
		return askAs[task.Task](c, verb, `{"id":"`+string(made.ID)+`"}`).State
	}
	if is := asked(viewer, rights.OwnSignal); is != task.Pending {
		t.Errorf("what a viewer is asked, and approves, is %s", is)
	}
	if is := asked(submitter, rights.OwnReject); is != task.Abnormal {
		t.Errorf("what a submitter is asked, and rejects, is %s", is)
	}
	askAs[any](operator, rights.JobApply, `{"name":"hello","definition":{"run":{"argv":["true"]}}}`)
	hello := `{"name":"hello"}`
	requests := map[rights.Verb]string{rights.BreakerGet: hello, rights.JobGet: hello, rights.JobHistory: hello, rights.NodeGet: `{"id":"here"}`, rights.NodeWait: `{"id":"here"}`, rights.LogDiff: `{"at":"1"}`, rights.JobValidate: `{"text":"name: hello"}`, rights.TasksCount: `{"for":"cancel","filter":{"job":"hello"}}`, rights.TaskDiff: `{"id":"` + string(receipt.ID) + `","with":"` + string(receipt.ID) + `"}`}
	for _, verb := range rights.Verbs(rights.Reading) {
		// None of these exists.
		if slices.Contains([]rights.Verb{rights.ScheduleGet, rights.ScheduleProgress, rights.ScheduleHistory, rights.ScheduleDiff, rights.JobDiff, rights.CalendarGet, rights.CalendarHistory, rights.CalendarDiff, rights.FilesGet, rights.FilesDiff, rights.FilesVerify}, verb) {
			continue
		}
		if requests[verb] == "" && verb != rights.TaskList && strings.HasPrefix(string(verb), "task.") {
			requests[verb] = `{"id":"` + string(receipt.ID) + `"}`
		}
		for _, caller := range []*caller{viewer, operator} {
			askAs[any](caller, verb, requests[verb])
		}
	}
	askAs[any](operator, rights.ArchiveNote, `{"archive":"/past","segments":["one"]}`)
	cordoned := askAs[client.NodeView](operator, rights.NodeCordon, `{"id":"here"}`)
	paused := askAs[queue.Queue](operator, rights.QueuePause, `{"queue":"default","reason":"a test"}`)
	c, err := client.Connect(t.Context(), client.Options{Server: g.ns.ClientURL(), User: operator.user, Password: rolePassword, InboxPrefix: rights.DefaultInbox(operator.user)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	history, err := c.History(t.Context(), receipt.ID)
	if err != nil {
		t.Fatal(err)
	}
	if by := history[0].Fact.Actor; by != submitter.user || cordoned.Standing.By != operator.user || paused.Paused == nil || paused.Paused.By != operator.user {
		t.Errorf("submitted by %q, cordoned by %q, paused by %+v", by, cordoned.Standing.By, paused.Paused)
	}
	g.unrefused(t, account)

	refusals := 0
	for _, of := range []struct {
		caller *caller
		verbs  []rights.Verb
	}{
		{viewer, rights.Verbs(rights.Submitting, rights.Operating)},
		{submitter, append(rights.Verbs(rights.Operating), rights.TaskList, rights.NodeList)},
	} {
		for _, verb := range of.verbs {
			of.caller.refused(verb.For(of.caller.user), &refusals)
		}
	}
	// No caller can ask in the name of another.
	for _, other := range []string{operator.user, "ada", "scheduler"} {
		for _, caller := range []*caller{submitter, viewer, operator} {
			if caller.user != other {
				caller.refused(rights.TaskSubmit.For(other), &refusals)
			}
		}
	}
	p.Until("all of it is refused", func() bool { return len(g.refused(account)) == refusals })

	// An answer goes out with the server's rights, and never where it would do something.
	end, err := c.Store().End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"$JS.API.STREAM.PURGE.MR_LOG", "$JS.API.STREAM.DELETE.MR_LOG", "mr.admit.job.x", "mr.tick.x", rights.NodeDrain.For(operator.user)} {
		for _, subject := range []string{rights.TaskGet.For(submitter.user), rights.ServerHealth.For(submitter.user)} {
			if err := submitter.nc.PublishRequest(subject, reply, []byte(`{"id":"here"}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := operator.nc.PublishRequest("mr.ping.here", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	askAs[any](submitter, rights.ServerHealth, "") // those before have been heard
	if _, err := c.Ping(t.Context(), "here"); err != nil {
		t.Error(err)
	}
	if askAs[any](operator, rights.NodeList, ""); len(g.refused(account)) != refusals {
		t.Errorf("refused is %q", g.refused(account))
	}
	if after, err := c.Store().End(t.Context()); err != nil || after != end {
		t.Errorf("the log ends at %d, and did at %d (%v)", after, end, err)
	}
	if again, err := c.History(t.Context(), receipt.ID); err != nil || len(again) != len(history) {
		t.Errorf("%d facts of %d are left (%v)", len(again), len(history), err)
	}

	as(rights.Worker, "here")
	start := time.Now()
	r := p.Try("node", "ls")
	if r.Code != 5 || !strings.Contains(r.Errs, "permission to publish to mr.api.roles-worker-here.node.list is missing") || !strings.Contains(r.Errs, "hint: `millrace nats permissions`") {
		t.Errorf("exit code %d, %s", r.Code, r.Errs)
	}
	as(rights.Operator, "")
	p.Let("NATS_INBOX_PREFIX", "_INBOX")
	r = p.Try("task", "ls")
	if r.Code != 5 || !strings.Contains(r.Errs, "permission to subscribe to _INBOX.") || !strings.Contains(r.Errs, "--inbox-prefix") {
		t.Errorf("exit code %d, %s", r.Code, r.Errs)
	}
	if took := time.Since(start); took > harness.Patience/4 {
		t.Errorf("it took %v to say so", took)
	}
	worker.Stop()
	server.Stop()
}

// caller is a user of the service.
type caller struct {
	*harness.Place
	nc   *nats.Conn
	user string
}

func callerOf(p *harness.Place, g *guardedServer, user string) *caller {
	p.Helper()
	return &caller{p, dialAs(p, g, user), user}
}

func askAs[T any](c *caller, verb rights.Verb, request string) T {
	c.Helper()
	return harness.Ask[T](c.Place, c.nc, verb.For(c.user), request)
}

// refused sends a request that the NATS server must refuse, and counts the refusal.
func (c *caller) refused(subject string, refusals *int) {
	c.Helper()
	if err := c.nc.PublishRequest(subject, c.nc.NewRespInbox(), []byte("{}")); err != nil {
		c.Fatal(err)
	}
	*refusals++
}

// Of two realms on one NATS server, set up as the page says, neither sees anything of the other.
func TestRealms(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, found := strings.Cut(string(page), "```conf\n")
	config, _, ended := strings.Cut(config, "```\n")
	if !found || !ended || !strings.Contains(config, `include "crawl.conf"`) {
		t.Fatal("docs/permissions.md shows no configuration with realms")
	}
	p := harness.New(t, 2*time.Second)
	for _, line := range regexp.MustCompile(`(?m)^millrace nats permissions --account .*$`).FindAllString(string(page), -1) {
		command, file, _ := strings.Cut(line, " > ")
		block := p.Run(strings.Fields(command)[1:]...)
		for _, m := range regexp.MustCompile(`password: (\$\w+)`).FindAllStringSubmatch(block, -1) {
			block = strings.Replace(block, m[1], rolePassword, 1)
		}
		p.Write(file, block+"\n")
	}
	config = strings.Replace(config, `"/var/lib/nats"`, strconv.Quote(t.TempDir()), 1)
	g := guardWith(t, p.Path("nats.conf"), "listen: \"127.0.0.1:-1\"\n"+config)
	p.Let("NATS_URL", g.ns.ClientURL())
	before := p.Env
	as := func(user string) { p.Env = append(slices.Clip(before), g.as(user)...) }
	var made []string
	for _, realm := range []struct{ name, node string }{{"crawl", "crawler-7"}, {"shop", "till-1"}} {
		as(realm.name + "-server")
		server := p.Start("server", "--data", realm.name)
		server.Until("the server is ready", func() bool { return strings.Contains(server.Said.String(), "Millrace serves") })
		defer server.Stop()
		as(realm.name + "-" + realm.node)
		worker := p.Worker(realm.node)
		defer worker.Stop()
		as(realm.name + "-operator")
		p.Run("node", "wait", realm.node)
		made = append(made, p.Run("run", "--wait", "--", "true"))
	}
	for i, realm := range []string{"crawl", "shop"} {
		as(realm + "-operator")
		own, other := strings.Fields(made[i])[0], strings.Fields(made[1-i])[0]
		if nodes := p.Run("node", "ls", "-o", "json"); strings.Contains(nodes, "crawler-7") == strings.Contains(nodes, "till-1") {
			t.Errorf("%s sees the nodes %s", realm, nodes)
		}
		p.Run("task", "show", own)
		if r := p.Try("task", "show", other); r.Code == 0 {
			t.Errorf("%s sees a task of the other realm:\n%s", realm, r.Out)
		}
		g.unrefused(t, strings.ToUpper(realm))
	}
	for name, most := range map[string]int64{"CRAWL": 50 << 30, "SHOP": 20 << 30} {
		account, err := g.ns.LookupAccount(name)
		if err != nil {
			t.Fatal(err)
		}
		if limits := account.JetStreamUsage().Limits; limits.MaxStore != most {
			t.Errorf("%s may store %d bytes, want %d", name, limits.MaxStore, most)
		}
	}
}
