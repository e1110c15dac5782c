package crawler

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// maxAddress is the longest address that is followed. Most servers refuse longer
// ones, and a site that keeps adding to its links ends here.
const maxAddress = 2048

// startAddress reads the address that a person has given.
func startAddress(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("the start address: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("the start address is %q, want http://host/… or https://host/…", text)
	case u.User != nil:
		return "", errors.New("the start address holds a user name; it would appear in every record")
	}
	u, ok := canonical(u)
	if !ok {
		return "", fmt.Errorf("the start address %q cannot be asked for", text)
	}
	return u.String(), nil
}

// canonical gives addresses of the same page the same spelling, as far as RFC 3986 (section 6.2)
// can tell without asking the server: case, default ports, percent-encoding and dot segments. It
// drops the fragment, which only browsers use. It returns false for an address that is not to be
// fetched.
func canonical(u *url.URL) (*url.URL, bool) {
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return nil, false
	}
	path := escape(u.EscapedPath())
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return nil, false
	}
	c := &url.URL{Scheme: u.Scheme, Host: host(u), Path: decoded, RawPath: path, RawQuery: escape(u.RawQuery)}
	c = new(url.URL).ResolveReference(c) // removes dot segments
	return c, u.Hostname() != "" && len(c.String()) <= maxAddress
}

// host is the host in lower case, with a port that is not the scheme's own.
func host(u *url.URL) string {
	h := strings.ToLower(strings.TrimSuffix(u.Host, ":"))
	switch u.Scheme + ":" + u.Port() {
	case "http:80":
		return strings.TrimSuffix(h, ":80")
	case "https:443":
		return strings.TrimSuffix(h, ":443")
	}
	return h
}

// sameSite tells whether two canonical addresses are of one host. Its http and
// its https are taken for one site; other ports are other sites.
func sameSite(a, b *url.URL) bool {
	return a.Host == b.Host
}

// escape writes each byte of a path or query in the form that RFC 3986 calls normal: nothing is
// escaped without need, and escapes are in upper case.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])
		if escaped {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		switch {
		case isUnreserved(c), !escaped && c > ' ' && c < 0x7f && !strings.ContainsRune("%\"<>`", rune(c)):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
