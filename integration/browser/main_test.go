package browser

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var (
	program = flag.String("millrace", "", "the program that is tested (default: it is built)")
	shots   = flag.String("screenshots", "", "a directory to which all screenshots are written")
)

// patience is how long something may take; only a failure takes so long.
const patience = 2 * time.Minute

// The tests poll a page until it has the wanted state: every pollEvery, at most mostAsked times, so
// that a slow page gets more time. One answer may take answersWithin; mostSilent answers in a row
// that do not come fail the test.
const (
	pollEvery     = 100 * time.Millisecond
	mostAsked     = 900
	answersWithin = 20 * time.Second
	mostSilent    = 10
)

// prefix is what a proxy has put before all paths.
const prefix = "/a/b"

// chromium is the browser that all tests share; each test has a tab of its own.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := serve(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func serve(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "millrace-browser-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if *shots != "" {
		if err := os.MkdirAll(*shots, 0o755); err != nil {
			return 0, err
		}
	}
	if *program == "" {
		*program = filepath.Join(dir, "millrace")
		build := exec.Command("go", "build", "-o", *program, "./cmd/millrace")
		build.Dir, build.Stdout, build.Stderr = "../..", os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			return 0, fmt.Errorf("build millrace: %w", err)
		}
	}
	path, err := exec.LookPath("chromium")
	if err != nil {
		return 0, fmt.Errorf("these tests need Chromium; apt-get install chromium: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.UserDataDir(filepath.Join(dir, "profile")),
		chromedp.Env("HOME="+dir, "TMPDIR="+dir), chromedp.Flag("lang", "en"), chromedp.WindowSize(1280, 900))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // root has none
	}
	allocator, release := chromedp.NewExecAllocator(context.Background(), options...)
	defer release()
	browser, end := chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(browser); err != nil {
		return 0, fmt.Errorf("start %s: %w", path, err)
	}
	chromium = browser
	return m.Run(), nil
}

// site is a Millrace of its own, behind a proxy.
type site struct {
	data   string
	http   string // where it answers
	env    []string
	proxy  *httptest.Server
	target atomic.Pointer[url.URL]
	server *server
	// kept are the first answers of pages, for tests that compare two looks at the same answer.
	kept atomic.Pointer[answers]
}

// answers are those to requests, by their addresses.
type answers struct {
	mu sync.Mutex
	of map[string]*httptest.ResponseRecorder // guarded by mu
}

// serve answers as it was answered before, or else as next does.
func (a *answers) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	is := a.of[r.URL.RequestURI()]
	if is == nil {
		is = httptest.NewRecorder()
		next.ServeHTTP(is, r)
		a.of[r.URL.RequestURI()] = is
	}
	maps.Copy(w.Header(), is.Header())
	w.WriteHeader(is.Code)
	_, _ = w.Write(is.Body.Bytes()) // the browser may have left the page
}

// server is a process of it.
type server struct {
	*exec.Cmd
	ended chan error
	link  string
}

// open starts `millrace demo --keep` or `millrace dev`, and waits until it says that it is ready.
func open(t *testing.T, command ...string) *site {
	t.Helper()
	home := t.TempDir()
	s := &site{data: filepath.Join(home, "data"), http: "127.0.0.1:0"}
	s.env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "XDG_RUNTIME_DIR=")
	pass := http.StripPrefix(prefix, &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			// Only browsers resolve that name, to this machine.
			to := s.target.Load()
			r.SetURL(&url.URL{Scheme: to.Scheme, Host: net.JoinHostPort("127.0.0.1", to.Port())})
			r.Out.Host = to.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	s.proxy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kept := s.kept.Load(); kept != nil && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
			kept.serve(w, r, pass)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(s.proxy.Close)
	s.start(t, command...)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// start starts a process of the site.
func (s *site) start(t *testing.T, command ...string) {
	t.Helper()
	args := append(command, "--data", s.data, "--port", "0", "--http", s.http)
	p := &server{Cmd: exec.Command(*program, args...), ended: make(chan error, 1)}
	p.Env = s.env
	said, out := io.Pipe()
	p.Stdout, p.Stderr = out, out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	s.server = p
	go func() {
		err := p.Wait()
		out.Close()
		p.ended <- err
	}()
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(said)
		var all strings.Builder
		link := ""
		once := sync.OnceFunc(func() { ready <- link })
		for lines.Scan() {
			fmt.Fprintln(&all, lines.Text())
			if _, is, ok := strings.Cut(lines.Text(), "lets a browser in, once: "); ok {
				link = is
			}
			if strings.Contains(lines.Text(), "It stays until Ctrl-C") || command[0] == "dev" && link != "" {
				once()
			}
		}
		link = "!" + all.String()
		once()
	}()
	select {
	case p.link = <-ready:
	case <-time.After(patience):
		t.Fatal("millrace does not get ready")
	}
	to, err := url.Parse(p.link)
	if err != nil || to.Host == "" {
		t.Fatalf("millrace gives no link: %s", p.link)
	}
	s.http = net.JoinHostPort("127.0.0.1", to.Port())
	s.target.Store(&url.URL{Scheme: "http", Host: to.Host})
	p.link = s.proxy.URL + prefix + to.RequestURI()
}

// stop ends the process of the site.
func (s *site) stop(t *testing.T) {
	t.Helper()
	_ = s.server.Process.Signal(syscall.SIGTERM)
	// Ends requests that wait for tasks.
	time.AfterFunc(5*time.Second, func() { _ = s.server.Process.Signal(syscall.SIGTERM) })
	var failed *exec.ExitError
	select {
	case err := <-s.server.ended:
		if err != nil && !errors.As(err, &failed) {
			t.Error(err)
		}
		s.server.ended <- nil
	case <-time.After(patience):
		_ = s.server.Process.Kill()
		t.Error("millrace does not end")
	}
}

// door is the link that lets the browser in, which it does once; then the browser is known.
func (s *site) door() string {
	link := s.server.link
	s.server.link = s.proxy.URL + prefix + "/"
	return link
}

// cli runs a command against the site.
func (s *site) cli(t *testing.T, args ...string) string {
	t.Helper()
	at, err := os.ReadFile(filepath.Join(s.data, "nats.url"))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(*program, args...)
	c.Env = append(s.env, "NATS_URL="+strings.TrimSpace(string(at)))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("millrace %.200q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
