package crawler

import (
	"bytes"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

const (
	// maxLinks is how many different links of one page are followed; one with
	// more was made by a machine, and for no reader.
	maxLinks = 5000
	// maxTitle is the longest title, in bytes.
	maxTitle = 300
)

// document holds what the crawler needs of a page.
type document struct {
	title string
	// links are canonical, each once, in the order of the page, and of any host.
	links []*url.URL
}

// parseHTML reads a page that came from address. The page may be broken, cut
// off, or in any encoding that a browser knows: the content type, the page's own
// words and its first bytes tell which.
func parseHTML(body []byte, contentType string, address *url.URL) document {
	var text io.Reader = bytes.NewReader(body)
	if decoded, err := charset.NewReader(text, contentType); err == nil {
		text = decoded
	}
	var d document
	base, based := address, false
	seen := make(map[string]bool)
	// Tokens are enough, and there is no tree that a hostile page could make deep.
	for z := html.NewTokenizer(text); ; {
		switch z.Next() {
		case html.ErrorToken:
			return d // the end; there is no other error in memory
		case html.StartTagToken, html.SelfClosingTagToken:
		default:
			continue
		}
		name, more := z.TagName()
		switch tag := atom.Lookup(name); tag {
		case atom.Title:
			if d.title == "" && z.Next() == html.TextToken {
				d.title = clean(z.Text())
			}
		case atom.Base:
			if u := reference(address, attribute(z, more, "href")); u != nil && !based {
				base, based = u, true // the first one counts
			}
		case atom.A, atom.Area, atom.Frame, atom.Iframe:
			key := "href"
			if tag == atom.Frame || tag == atom.Iframe {
				key = "src"
			}
			u := reference(base, attribute(z, more, key))
			if u == nil || len(d.links) == maxLinks {
				continue
			}
			if u, ok := canonical(u); ok && !seen[u.String()] {
				seen[u.String()] = true
				d.links = append(d.links, u)
			}
		}
	}
}

// attribute returns the value of the attribute key of the current tag, or "".
func attribute(z *html.Tokenizer, more bool, key string) string {
	for more {
		var k, v []byte
		if k, v, more = z.TagAttr(); string(k) == key {
			return string(v)
		}
	}
	return ""
}

// reference resolves the target of a link. It returns nil for an empty one and for one that is no
// address.
func reference(base *url.URL, text string) *url.URL {
	// Browsers pass over these, and authors break long links with them.
	text = strings.TrimSpace(strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(text))
	if text == "" {
		return nil
	}
	u, err := base.Parse(text)
	if err != nil {
		return nil
	}
	return u
}

// clean makes a title one line of bounded length.
func clean(title []byte) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(title), "\uFFFD")), " ")
	if len(s) <= maxTitle {
		return s
	}
	end := maxTitle
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
