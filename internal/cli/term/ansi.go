package term

import (
	"html/template"
	"strconv"
	"strings"
)

// Pen converts coloured lines to HTML: colour sequences become classes, all other control sequences
// are dropped. What one line has begun continues in the next.
type Pen struct {
	fore, back       string
	bold, dim, under bool
}

// Draw returns a line as HTML.
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
	return template.HTML(b.String()) // everything but the elements is escaped
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

// sequence reads a sequence after its escape character, and returns the rest.
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

// colour applies a sequence of codes: the sixteen colours that style sheets name.
func (p *Pen) colour(codes string) {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		n, _ := strconv.Atoi(list[i]) // an empty one is 0
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
		case n == 38 || n == 48: // one of 256 colours, or of all: not supported
			if i+1 < len(list) && list[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
}
