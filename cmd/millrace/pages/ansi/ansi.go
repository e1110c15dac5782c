// Package ansi shows lines that a program has coloured for a terminal as HTML.
package ansi

import (
	"html/template"
	"strconv"
	"strings"
)

// Pen draws lines that a program has coloured for a terminal: of the control sequences those that colour become classes, and all others
// nothing. What a line has begun goes on in the next one.
type Pen struct {
	fore, back       string
	bold, dim, under bool
}

// Draw is a line as HTML.
func (p *Pen) Draw(text string) template.HTML {
	if !strings.ContainsRune(text, '\x1b') && *p == (Pen{}) {
		return template.HTML(template.HTMLEscapeString(text)) // escaped
	}
	var b strings.Builder
	for text != "" {
		plain, rest, found := strings.Cut(text, "\x1b")
		p.span(&b, plain)
		if text = ""; found {
			text = p.sequence(rest)
		}
	}
	return template.HTML(b.String()) // all but the elements is escaped
}

func (p *Pen) span(b *strings.Builder, text string) {
	if text == "" {
		return
	}
	var classes []string
	for _, style := range []struct {
		class string
		is    bool
	}{{"sgr-b", p.bold}, {"sgr-d", p.dim}, {"sgr-u", p.under}} {
		if style.is {
			classes = append(classes, style.class)
		}
	}
	if p.fore != "" {
		classes = append(classes, "sgr-"+p.fore)
	}
	if p.back != "" {
		classes = append(classes, "sgr-bg-"+p.back)
	}
	if len(classes) == 0 {
		b.WriteString(template.HTMLEscapeString(text))
		return
	}
	b.WriteString(`<span class="` + strings.Join(classes, " ") + `">` + template.HTMLEscapeString(text) + `</span>`)
}

// sequence reads what follows an escape, and returns what follows that.
func (p *Pen) sequence(s string) string {
	switch {
	case s == "":
		return ""
	case s[0] == '[':
		end := strings.IndexFunc(s[1:], func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return ""
		}
		if s[1+end] == 'm' {
			p.colour(s[1 : 1+end])
		}
		return s[end+2:]
	case s[0] == ']' || s[0] == 'P': // titles, links
		if end := strings.IndexByte(s, '\a'); end >= 0 {
			return s[end+1:]
		}
		if end := strings.Index(s, "\x1b\\"); end >= 0 {
			return s[end+2:]
		}
		return ""
	}
	return s[1:]
}

// colour obeys a sequence of codes: the sixteen colours that style sheets have names for.
func (p *Pen) colour(codes string) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		n, _ := strconv.Atoi(list[i]) // none is 0
		switch {
		case n == 0:
			*p = Pen{}
		case n == 1:
			p.bold = true
		case n == 2:
			p.dim = true
		case n == 4:
			p.under = true
		case n == 22:
			p.bold, p.dim = false, false
		case n == 24:
			p.under = false
		case n >= 30 && n <= 37, n >= 90 && n <= 97:
			p.fore = strconv.Itoa(n % 10)
		case n == 39:
			p.fore = ""
		case n >= 40 && n <= 47, n >= 100 && n <= 107:
			p.back = strconv.Itoa(n % 10)
		case n == 49:
			p.back = ""
		case n == 38 || n == 48: // a colour of 256, or of all: none of ours
			if i+1 < len(list) && list[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
}
