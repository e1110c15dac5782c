package httpapi

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/metrics"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
)

// token makes a token, and returns its holder's header.
func (s *site) token(name string, role rights.Role, expires time.Time, replace bool) string {
	s.Helper()
	secret, err := client.New(s.store, "ada").AddToken(s.Context(), name, role, expires, replace)
	if err != nil {
		s.Fatal(err)
	}
	return "Bearer " + secret
}

// comes repeats a request until the answer has a status: the service learns of changes in the log a
// moment later.
func (s *site) comes(status int, authorization string) {
	s.Helper()
	var got answer
	if !testkit.Poll(patience, func() bool {
		got = s.send("GET", "/api/v1/health", "", "Authorization", authorization)
		return got.status == status
	}) {
		s.Fatalf("the answer stays %d, want %d: %s", got.status, status, got.body)
	}
}

// The last use of a token is stored a moment later, beside the log.
func TestTokenUse(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	shop := s.token("shop", rights.Viewer, time.Time{}, false)
	s.token("idle", rights.Viewer, time.Time{}, false)
	end, err := s.store.Last(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.comes(200, shop)
	hash := definitions.TokenHash(definitions.TokenCookie(strings.TrimPrefix(shop, "Bearer ")))
	testkit.Eventually(t, "the use of a token is stored", func() bool {
		used, err := s.store.TokenUses(t.Context(), []string{"shop", "idle", "nobody"})
		if err != nil {
			t.Fatal(err)
		}
		at := used[hash]
		if !at.IsZero() && (len(used) != 1 || time.Since(at) > patience) {
			t.Errorf("used: %v", used)
		}
		return !at.IsZero()
	})
	if now, err := s.store.Last(t.Context()); err != nil || now != end {
		t.Errorf("the log ends at %d, %v, and did at %d: it grows by the use of a token", now, err, end)
	}
}

// A token that is used all the time is stored once a minute, others not at all.
func TestUses(t *testing.T) {
	t.Parallel()
	var k keys
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hash := definitions.TokenHash("c")
	k.set([]definitions.Token{{Name: "busy", Hash: hash}, {Name: "idle", Hash: definitions.TokenHash("other")}}, at)
	stored := 0
	for second := range 600 {
		now := at.Add(time.Duration(second) * time.Second)
		if second < 300 {
			if _, err := k.find("c", netip.Addr{}, now); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range k.uses(now) {
			if stored++; u.Name != "busy" || u.Hash != hash || now.Sub(u.At) > useEvery {
				t.Errorf("after %d s %+v is to be stored", second, u)
			}
		}
	}
	if stored != 6 { // at 0 s, at each minute, and what came after the last of those
		t.Errorf("%d uses are to be stored, want 6", stored)
	}
	if _, err := k.find("stranger", netip.Addr{}, at); err == nil || len(k.uses(at.Add(time.Hour))) > 0 {
		t.Error("a stranger uses a token")
	}
}

// The holder of a token is admitted under its name as long as the token is valid; then its streams
// end.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	shop := s.token("shop", rights.Operator, time.Time{}, false)
	s.comes(200, shop)
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &r, "Authorization", shop)
	facts, err := s.store.Task(t.Context(), r.ID)
	if err != nil || len(facts) == 0 || facts[0].Fact.Actor != "shop" {
		t.Errorf("the facts are %+v, %v; want them by the token", facts, err)
	}

	// A link for the token admits a browser, whose access ends with the token.
	var made struct{ URL string }
	s.want(200, "POST", "/login", "", &made, "Authorization", shop)
	link, browser := s.opens(made.URL)
	got := s.want(303, "GET", link, "", nil, browser...)
	cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil || strings.Contains(shop, cookie.Value) {
		t.Fatalf("%v, %v", cookie, err)
	}
	browser = append(browser, "Cookie", cookie.Name+"="+cookie.Value)
	s.want(200, "GET", "/api/v1/tasks", "", nil, browser...)

	follows := s.listen("/api/v1/events?from=1", "Authorization", shop)
	if _, ok := follows.next(); !ok {
		t.Fatal("who follows hears nothing")
	}
	again := s.token("shop", rights.Viewer, time.Time{}, true)
	s.comes(200, again)
	s.refused(401, "who", "GET", "/api/v1/tasks", "", "Authorization", shop)
	s.refused(401, "who", "GET", "/api/v1/tasks", "", browser...)
	for {
		h, ok := follows.next()
		if !ok {
			t.Fatal("the end of his token has not been said")
		}
		if h.event == "problem" {
			if !strings.Contains(h.data, "urn:millrace:who") {
				t.Errorf("he is told %s", h.data)
			}
			break
		}
	}
	if h, ok := follows.next(); ok {
		t.Errorf("after the end he hears %+v", h)
	}
	if err := s.store.RemoveToken(t.Context(), "shop", "ada"); err != nil {
		t.Fatal(err)
	}
	s.comes(401, again)

	figures := map[string]float64{}
	s.Collect(func(f *metrics.Family, value float64, _ *metrics.Histogram, labels ...string) {
		figures[f.Name+strings.Join(labels, ",")] = value
	})
	if figures["millrace_http_requests_totaltask.submit,200"] != 1 || figures["millrace_http_requests_totaltask.list,401"] != 2 || figures["millrace_http_requests_total,303"] != 1 || figures["millrace_http_followers"] != 0 {
		t.Errorf("the figures are %v", figures)
	}

	brief := s.token("brief", rights.Viewer, s.store.Now().Add(time.Hour), false)
	s.comes(200, brief)
	// The user of the machine is admitted whether tokens exist or not.
	s.want(200, "GET", "/api/v1/tasks", "", nil)
}

// A token is taken from the moment that it was made, wherever that was: a server that does not know
// it looks for it.
func TestNewTokens(t *testing.T) {
	s := open(t, nil)
	for n := range 10 {
		made := s.token("shop", rights.Viewer, time.Time{}, n > 0)
		s.want(200, "GET", "/api/v1/tasks", "", nil, "Authorization", made)
	}
	form := url.Values{"token": {strings.TrimPrefix(s.token("browser", rights.Viewer, time.Time{}, false), "Bearer ")}, "to": {"/tasks"}}.Encode()
	s.want(303, "POST", "/login", form, nil, "Authorization", "", "Content-Type", "application/x-www-form-urlencoded")

	// A caller with an unknown token is refused within a bounded time, and all such callers share
	// the reads.
	begun := time.Now()
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			if got, err := s.try("GET", "/api/v1/tasks", "", "Authorization", "Bearer mr_"+strings.Repeat("A", 24)+strconv.Itoa(10+n)); err != nil || got.status != 401 {
				t.Errorf("%d, %v", got.status, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); took > 10*lookWithin {
		t.Errorf("refused after %v", took)
	}
}

// One token that sends as many requests as it can, from many sides, starves no other.
func TestGreedyToken(t *testing.T) {
	s := open(t, nil)
	greedy, other := s.token("greedy", rights.Viewer, time.Time{}, false), s.token("other", rights.Viewer, time.Time{}, false)
	var all sync.WaitGroup
	over := make(chan struct{})
	for range 48 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				if got, err := s.try("GET", "/api/v1/tasks?counts=true", "", "Authorization", greedy); err != nil || got.status != 200 && got.status != 503 {
					t.Errorf("%d, %v", got.status, err)
					return
				}
			}
		})
	}
	for range testkit.Size(30, 100) {
		s.want(200, "GET", "/api/v1/tasks?counts=true", "", nil, "Authorization", other)
	}
	close(over)
	all.Wait()
}

// Keys are valid as long as their credential exists and has not expired.
func TestKeys(t *testing.T) {
	t.Parallel()
	now := time.Now()
	here, there := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	var k keys
	k.setMachine(&Machine{Secret: secret, Caller: Caller{Name: "ada", Role: rights.Operator}})
	shop, cookie := definitions.Token{Name: "shop", Role: rights.Viewer, Expires: now.Add(time.Hour)}, "c"
	shop.Hash = definitions.TokenHash(cookie)
	other := definitions.Token{Name: "other", Role: rights.Viewer, Hash: definitions.TokenHash("d")}
	k.set([]definitions.Token{shop, other}, now)
	is, err := k.find(cookie, there, now)
	if err != nil || is.Name != "shop" || is.Role != rights.Viewer || is.life.Err() != nil {
		t.Fatalf("found %+v, %v", is, err)
	}
	if _, err := k.find(cookie, there, now.Add(time.Hour)); err == nil {
		t.Error("let in after it has expired")
	}
	k.set([]definitions.Token{shop}, now)
	if is.life.Err() != nil {
		t.Error("cut off because another token has gone")
	}
	lower := shop
	lower.Role = rights.Submitter
	k.set([]definitions.Token{lower}, now)
	if is.life.Err() == nil {
		t.Error("goes on in the role that he had")
	}
	k.set(nil, now)
	if _, err := k.find(cookie, there, now); err == nil {
		t.Error("let in though the token is gone")
	}
	machine := definitions.TokenCookie(secret)
	if _, err := k.find(machine, there, now); err == nil {
		t.Error("the credential of the machine lets in other machines")
	}
	if is, err := k.find(machine, here, now); err != nil || is.Name != "ada" {
		t.Errorf("the user of the machine is %+v, %v", is, err)
	}
}

// On every route each role may do what [rights.Role.May] says, and nothing else.
func TestRoles(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	values := strings.NewReplacer("{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{queue}", "crawl", "{name}", "nobody", "{seq}", "1")
	for _, role := range rights.Asking() {
		token := s.token("a-"+string(role), role, time.Time{}, false)
		s.comes(200, token)
		for _, o := range operations() {
			may := role.May(o.verb) || role.May(o.verb.Own())
			if strings.HasSuffix(o.path, "/wait") && may {
				continue // waits for what does not come
			}
			body := ""
			if o.method != http.MethodGet {
				body = `{"nothing":"of the kind"}` // so that nothing is done
			}
			got := s.send(o.method, prefix+values.Replace(o.path), body, "Authorization", token)
			if refused := got.status == 403; refused == may || got.status >= 500 {
				t.Errorf("%s %s is answered to a %s with %d", o.method, o.path, role, got.status)
			}
		}
	}
}

// A submitter asks what becomes of the tasks that it has submitted, with their steps, and of no others.
func TestOwnTasks(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	shop, other := s.token("shop", rights.Submitter, time.Time{}, false), s.token("other", rights.Submitter, time.Time{}, false)
	s.comes(200, shop)
	s.comes(200, other)
	var whole, theirs client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"steps":[{"name":"a","run":{"argv":["date"]}}]}}`, &whole, "Authorization", shop)
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &theirs, "Authorization", other)
	step := birth.ChildID(whole.ID, "a")
	for _, id := range []task.ID{whole.ID, step} {
		at := prefix + "/tasks/" + string(id)
		for _, what := range []string{"/why", "/output", "/records"} {
			s.want(200, "GET", at+what, "", nil, "Authorization", shop)
			s.refused(403, "role", "GET", at+what, "", "Authorization", other)
			s.refused(403, "role", "GET", at+what, "", "Authorization", other, "Accept", "text/event-stream")
		}
		s.refused(403, "role", "GET", at+"/wait", "", "Authorization", other)
		s.refused(403, "role", "GET", at+"/events", "", "Authorization", shop)
	}
	s.want(200, "POST", prefix+"/tasks/"+string(theirs.ID)+"/cancel", "", nil)
	s.want(200, "GET", prefix+"/tasks/"+string(theirs.ID)+"/wait", "", nil, "Authorization", other)
}

// A proxy names the user, below a path and under a host name of its own.
func TestProxy(t *testing.T) {
	t.Parallel()
	s := openWith(t, Config{
		Address: "127.0.0.1:0", Names: []string{"millrace.example"}, ProxyFrom: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		UserHeader: "X-User", UserRole: rights.Submitter, Prefix: "/mill",
	}, nil)
	as := []string{"Authorization", "", "X-User", "ada@example.com", "Host", "millrace.example"}
	at, _ := strings.CutSuffix(s.URL(), "/mill")
	if at == s.URL() {
		t.Errorf("the service is at %s", s.URL())
	}
	var r client.Receipt
	s.want(200, "POST", "/api/v1/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &r, as...)
	facts, err := s.store.Task(t.Context(), r.ID)
	if err != nil || len(facts) == 0 || facts[0].Fact.Actor != "proxy:ada@example.com" {
		t.Errorf("the facts are %+v, %v", facts, err)
	}
	if p := s.refused(403, "role", "POST", "/api/v1/tasks/"+string(r.ID)+"/cancel", "", as...); !strings.HasSuffix(p.Detail, "it is submitter, and this takes operator") {
		t.Errorf("a submitter who cancels is told %q", p.Detail)
	}
	if p := s.refused(403, "role", "GET", "/api/v1/nodes", "", as...); !strings.HasSuffix(p.Detail, "it is submitter, and this takes viewer") {
		t.Errorf("a submitter who lists nodes is told %q", p.Detail)
	}
	s.refused(403, "role", "POST", "/login", "", as...) // the proxy knows him
	s.refused(401, "who", "GET", "/api/v1/health", "", "Authorization", "", "Host", "millrace.example")
	s.refused(421, "host", "GET", "/api/v1/health", "", "Host", "other.example")
	s.want(200, "GET", "/api/v1/health", "", nil, "Host", "millrace.example:8443")
	s.refused(404, "nothing-here", "GET", "/mill/api/v1/health", "") // the prefix once is enough
	var made struct{ URL string }
	s.want(200, "POST", "/login", "", &made, "Host", "millrace.example", "X-Forwarded-Proto", "https")
	link, _ := strings.CutPrefix(made.URL, "https://millrace.example/mill")
	got := s.want(303, "GET", link, "", nil, "Authorization", "", "Host", "millrace.example", "X-Forwarded-Proto", "https")
	cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie"))
	if err != nil || !cookie.Secure || cookie.Path != "/mill/" || got.header.Get("Location") != "./" {
		t.Errorf("%v, %v, %v", cookie, got.header, err)
	}
}

// certificates writes a certificate of a name and its key, and returns both paths.
func certificates(t *testing.T, dir, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: text}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(parsed)
	return cert, key, pool
}

// The service speaks TLS, streams and all, and shows another certificate when the files have
// another one.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, pool := certificates(t, dir, "first")
	s := openWith(t, Config{Address: "127.0.0.1:0", Cert: cert, Key: key}, nil)
	s.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if !strings.HasPrefix(s.URL(), "https://") {
		t.Fatalf("the service is at %s", s.URL())
	}
	link, browser := s.opens(s.Link())
	got := s.want(303, "GET", link, "", nil, browser...)
	if cookie, err := http.ParseSetCookie(got.header.Get("Set-Cookie")); err != nil || !cookie.Secure {
		t.Errorf("%v, %v", cookie, err)
	}
	all := s.submitted(3)
	l := s.listen("/api/v1/events?from=" + itoa(all[0]))
	if got := l.sequences(3); len(got) != 3 || got[2] != all[2] {
		t.Errorf("heard %v, want %v", got, all)
	}
	if _, err := tls.Dial("tcp", s.listener.Addr().String(), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("an old version of TLS is spoken")
	}

	_, _, pool = certificates(t, dir, "second")
	s.tls = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	s.want(200, "GET", "/api/v1/health", "", nil)
	if err := os.WriteFile(key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(200, "GET", "/api/v1/health", "", nil) // the one before
	if _, err := Listen(t.Context(), Config{Address: "127.0.0.1:0", Cert: cert, Key: key}); err == nil {
		t.Error("it starts without a key")
	}
}
