package pages

import (
	"bytes"
	"embed"
	"encoding/json"
	"html/template"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/service/httpapi"
)

//go:embed templates
var templates embed.FS

// livePrefix begins the names of templates that are redrawn for followers. Each fills the element
// whose id is the rest of its name.
const livePrefix = "live:"

// shape is the templates of a page.
type shape struct {
	set  *template.Template
	live []string // names of its parts, in order
}

// shapes reads the templates of pages: layout.html holds what all have in common, and each page has
// a file with its own name.
func shapes(all []page) map[string]*shape {
	made := map[string]*shape{}
	common := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/common.html"))
	for _, p := range append(slices.Clone(all), linkPage, page{name: "error"}) {
		set := template.Must(template.Must(common.Clone()).ParseFS(templates, "templates/"+p.name+".html"))
		is := &shape{set: set}
		for _, t := range set.Templates() {
			if part, ok := strings.CutPrefix(t.Name(), livePrefix); ok {
				is.live = append(is.live, part)
			}
		}
		slices.Sort(is.live)
		made[p.name] = is
	}
	return made
}

// whole draws a page.
func (s *shape) whole(l *look) ([]byte, error) { return s.draw("layout.html", l) }

// parts draws the parts of a page that change by themselves.
func (s *shape) parts(l *look) ([]httpapi.Part, error) {
	parts := make([]httpapi.Part, len(s.live))
	for i, name := range s.live {
		text, err := s.draw(livePrefix+name, l)
		if err != nil {
			return nil, err
		}
		if text, err = json.Marshal(string(text)); err != nil {
			return nil, err
		}
		parts[i] = httpapi.Part{Name: name, Text: text, Moving: l.moving}
	}
	return parts, nil
}

func (s *shape) draw(name string, l *look) ([]byte, error) {
	var b bytes.Buffer
	if err := s.set.ExecuteTemplate(&b, name, l); err != nil {
		return nil, err
	}
	return visible(b.Bytes()), nil
}

// visible replaces characters that are invisible, or that change how others are seen, by a dot:
// control characters, and those that change the direction of text. Templates contain none, so these
// come from foreign names and texts.
func visible(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	b := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if hidden(r) {
			b = append(b, "·"...)
		} else {
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	return b
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == utf8.RuneError || r == '\u2028' || r == '\u2029'
}
