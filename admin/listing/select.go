package listing

import (
	"fmt"
	"slices"
	"strings"
)

// selects tells whether a row has each of the values.
func (l *List[A, R]) selects(r R, wanted map[string][]string) bool {
	for _, s := range l.Selectors {
		values := wanted[s.Flag]
		if len(values) == 0 {
			continue
		}
		has := s.Of(r)
		for _, alternatives := range values {
			if !slices.ContainsFunc(strings.Split(alternatives, ","), func(value string) bool { return slices.Contains(has, value) }) {
				return false
			}
		}
	}
	return true
}

// Flags are the flags that select rows.
func (l *List[A, R]) Flags() (flags []Flag) {
	for _, s := range l.Selectors {
		flags = append(flags, Flag{s.Flag, s.Shorthand, s.Usage, s.Valid})
	}
	return flags
}

// ColumnNames are the names that SortBy takes.
func (l *List[A, R]) ColumnNames() (names []string) {
	for i := range l.Columns {
		names = append(names, l.Columns[i].name())
	}
	return names
}

// Check returns an error for what the list does not have.
func (l *List[A, R]) Check(v View) error {
	for _, name := range v.SortBy {
		if l.column(strings.TrimPrefix(name, "-")) == nil {
			return fmt.Errorf("--sort-by: there is no column %q: choose from %s", strings.TrimPrefix(name, "-"), strings.Join(l.ColumnNames(), ", "))
		}
	}
	for _, s := range l.Selectors {
		for _, alternatives := range v.Select[s.Flag] {
			if err := s.check(alternatives); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Selector[R]) check(alternatives string) error {
	for value := range strings.SplitSeq(alternatives, ",") {
		switch {
		case s.Valid != nil && !slices.Contains(s.Valid, value):
			return fmt.Errorf("--%s: there is no %s %q: choose from %s", s.Flag, s.Flag, value, strings.Join(s.Valid, ", "))
		case value == "":
			return fmt.Errorf("--%s: a value is empty: name one, or several that are separated by commas", s.Flag)
		}
	}
	return nil
}
