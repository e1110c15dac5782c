package httpapi

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events/jet/rights"
)

var (
	proxies  = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	outside  = []string{"millrace.example"}
	anywhere = netip.MustParseAddr("0.0.0.0")
)

// The service opens to other machines if something protects it there; else it says what is missing.
func TestOpens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config Config
		at     netip.Addr
		want   error
	}{
		{"loopback", Config{}, netip.MustParseAddr("127.0.0.1"), nil},
		{"loopback of IPv6", Config{}, netip.MustParseAddr("::1"), nil},
		{"nothing", Config{Names: outside}, anywhere, ErrExposed},
		{"one address", Config{Names: outside}, netip.MustParseAddr("192.0.2.1"), ErrExposed},
		{"TLS without a name", Config{Cert: "a", Key: "b"}, anywhere, ErrExposed},
		{"a proxy without a name", Config{ProxyFrom: proxies}, anywhere, ErrExposed},
		{"TLS", Config{Cert: "a", Key: "b", Names: outside}, anywhere, nil},
		{"a proxy", Config{ProxyFrom: proxies, Names: outside}, anywhere, nil},
		{"a certificate alone", Config{Cert: "a"}, anywhere, ErrConfig},
		{"a key alone", Config{Key: "a"}, anywhere, ErrConfig},
		{"a header of nobody", Config{UserHeader: "X-User", UserRole: rights.Viewer}, anywhere, ErrConfig},
		{"a header of a wrong role", Config{UserHeader: "X-User", UserRole: rights.Worker, ProxyFrom: proxies}, anywhere, ErrConfig},
		{"a header that is none", Config{UserHeader: "X User", UserRole: rights.Viewer, ProxyFrom: proxies}, anywhere, ErrConfig},
		{"a header that means something else", Config{UserHeader: "authorization", UserRole: rights.Viewer, ProxyFrom: proxies}, anywhere, ErrConfig},
		{"a header", Config{UserHeader: "X-User", UserRole: rights.Viewer, ProxyFrom: proxies, Names: outside}, anywhere, nil},
		{"every machine a proxy", Config{ProxyFrom: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, Names: outside}, anywhere, ErrConfig},
		{"a name that is none", Config{Names: []string{"*.example"}}, anywhere, ErrConfig},
		{"no name", Config{Names: []string{""}}, anywhere, ErrConfig},
		{"a prefix", Config{Prefix: "/a/millrace"}, netip.MustParseAddr("127.0.0.1"), nil},
		{"a prefix with an end", Config{Prefix: "/millrace/"}, anywhere, ErrConfig},
		{"a prefix that is the root", Config{Prefix: "/"}, anywhere, ErrConfig},
		{"a prefix without a root", Config{Prefix: "millrace"}, anywhere, ErrConfig},
		{"a prefix of another host", Config{Prefix: "//evil.example"}, anywhere, ErrConfig},
		{"a prefix with a pattern", Config{Prefix: "/{a}"}, anywhere, ErrConfig},
	} {
		err := c.config.Validate()
		if err == nil {
			err = c.config.opens(c.at)
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := Listen(t.Context(), Config{Address: "0.0.0.0:0"}); !errors.Is(err, ErrExposed) {
		t.Error(err)
	}
	if _, err := Listen(t.Context(), Config{Address: "127.0.0.1:http:no"}); !errors.Is(err, ErrAddress) {
		t.Error(err)
	}
}

// Only proxies are trusted to name a user.
func TestUser(t *testing.T) {
	t.Parallel()
	proxy, other := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.1.7")
	c := Config{ProxyFrom: proxies, UserHeader: "X-User", UserRole: rights.Viewer}
	for _, is := range []struct {
		peer    netip.Addr
		header  []string
		want    string
		refused bool
	}{
		{proxy, []string{"ada@example.com"}, "proxy:ada@example.com", false},
		{proxy, []string{"Ada-Lovelace"}, "proxy:Ada-Lovelace", false},
		{proxy, nil, "", false},
		{other, nil, "", false},
		{other, []string{"ada"}, "", true},
		{netip.MustParseAddr("127.0.0.1"), []string{"ada"}, "", true},
		{netip.Addr{}, []string{"ada"}, "", true},
		{proxy, []string{"ada", "root"}, "", true},
		{proxy, []string{""}, "", true},
		{proxy, []string{"ada lovelace"}, "", true},
		{proxy, []string{"ada\x1b[2J"}, "", true},
		{proxy, []string{"\xff"}, "", true},
		{proxy, []string{"scheduler"}, "", true},
		{proxy, []string{string(slices.Repeat([]byte("a"), longestUser+1))}, "", true},
	} {
		h := http.Header{}
		for _, name := range is.header {
			h.Add("X-User", name)
		}
		name, said, err := c.user(is.peer, h)
		if name != is.want || said != (is.want != "") || (err != nil) != is.refused {
			t.Errorf("%q from %s is %q, %v, %v; want %q, refused %v", is.header, is.peer, name, said, err, is.want, is.refused)
		}
	}
	nobody := Config{}
	if name, said, err := nobody.user(proxy, http.Header{"X-User": {"ada"}}); said || err != nil {
		t.Errorf("without a proxy the header names %q, %v", name, err)
	}
	for peer, admitted := range map[netip.Addr]bool{proxy: true, other: false, netip.MustParseAddr("127.0.0.1"): true, {}: false} {
		if c.admits(peer) != admitted {
			t.Errorf("without TLS %s is admitted: %v, want %v", peer, !admitted, admitted)
		}
	}
	c.Cert = "a"
	if !c.admits(other) {
		t.Error("with TLS others are not admitted")
	}
}

// One address has so many connections at most, and others are not kept out by it.
func TestCrowd(t *testing.T) {
	t.Parallel()
	c := &crowd{most: 2}
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var in []*visitor
	enter := func(from netip.Addr) bool {
		v, ok := c.enter(nowhere{}, from)
		if ok {
			in = append(in, v)
		}
		return ok
	}
	for i, want := range []bool{true, true, false} {
		if enter(one) != want {
			t.Errorf("connection %d is let in: %v", i+1, !want)
		}
	}
	if !enter(two) {
		t.Error("another address is kept out")
	}
	for range 2 { // it is closed by both sides
		_ = in[0].Close()
	}
	if !enter(one) {
		t.Error("who has left does not come back")
	}
	for range 100 { // of this machine
		if !enter(netip.Addr{}) {
			t.Error("a caller of this machine is kept out")
		}
	}
	for _, v := range in {
		_ = v.Close()
	}
	if len(c.are) > 0 {
		t.Errorf("counted are still %v", c.are)
	}
}

// nowhere is a connection that nobody reads.
type nowhere struct{ net.Conn }

func (nowhere) Close() error { return nil }

// Callers who do not say who they are keep nobody out: one more than there is room for closes the
// oldest, and each is closed after a while, behind the answer that is under way.
func TestUnknownCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{most: 2}
		var in []*visitor
		for range mostUnknown + 10 {
			v, _ := c.enter(nowhere{}, netip.Addr{})
			in = append(in, v)
			v.known()
			if len(in) > 5 {
				v, _ = c.enter(nowhere{}, netip.Addr{})
				in = append(in, v)
			}
		}
		gone := func(v *visitor) bool { c.mu.Lock(); defer c.mu.Unlock(); return v.gone }
		if c.unknown.Len() != mostUnknown || !gone(in[6]) || gone(in[len(in)-1]) || gone(in[0]) {
			t.Fatalf("%d unknown callers are connected", c.unknown.Len())
		}
		last := in[len(in)-1]
		answered := last.answering()
		time.Sleep(unknownFor + time.Second)
		synctest.Wait()
		if c.unknown.Len() != 1 || gone(last) || gone(in[0]) {
			t.Errorf("after %v %d unknown callers are connected", unknownFor, c.unknown.Len())
		}
		if answered(); !gone(last) {
			t.Error("it stays after its answer")
		}
	})
}
