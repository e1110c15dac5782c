package reach

import (
	"io"
	"log/slog"
	"time"

	"github.com/rs/zerolog"

	"millrace/cmd/millrace/term"
)

// ProcessLogger is for processes that stay: they tell what an operator should
// know on stderr, as text to a terminal and as JSON to anything else.
func (a *App) ProcessLogger() *slog.Logger {
	if !term.Colourful(a.Errs) {
		return logger(a.Errs, zerolog.InfoLevel)
	}
	return logger(zerolog.ConsoleWriter{Out: a.Errs, TimeFormat: time.TimeOnly}, zerolog.InfoLevel)
}

// logger writes what is at least of a level. No package but this one knows which library writes it.
func logger(w io.Writer, level zerolog.Level) *slog.Logger {
	return slog.New(zerolog.NewSlogHandler(zerolog.New(w).Level(level).With().Timestamp().Logger()))
}

// Logger tells a person about the connection; it is silent as long as all is well.
func (a *App) Logger() *slog.Logger {
	return logger(zerolog.ConsoleWriter{Out: a.Errs, NoColor: !term.Colourful(a.Errs), TimeFormat: time.TimeOnly}, zerolog.WarnLevel)
}
