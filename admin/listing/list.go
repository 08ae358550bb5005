// Package listing is how a list is shown: its columns, in which order its rows come, and which of them are selected. A List
// says that once for an answer of the operators' API; tables, JSON and what watches a list all follow it.
package listing

import (
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// List is how answers of type A are listed, as rows of type R.
type List[A proto.Message, R any] struct {
	// Field is the answer's repeated field with what is listed, by its name in the .proto file.
	Field string
	// Fields are, instead of Field, those of an answer with items in several. FieldOf is the one that a row's item is in.
	Fields  []string
	FieldOf func(R) string
	// Rows are the rows of an answer; one item may have several, or none.
	Rows func(A) []R
	// Item is the item that a row is of.
	Item func(R) proto.Message
	// ID tells an item from the others, and RowID a row of one item from its others; nil: an item has one row.
	ID, RowID func(R) string
	Columns   []Column[R]
	Selectors []Selector[R]
	// Below are lines below a row, of sentences that are too long for a cell; nil: none. They are a part of the row.
	Below func(r R, wide bool) []string
	// Head and Foot are the lines around the table; nil: none.
	Head, Foot func(A) []string
}

// Column is one column of a table.
type Column[R any] struct {
	// Name is the header. In --sort-by it is in lower case, with a dash for each space.
	Name string
	// Cell is what is shown; an empty text is shown as a dash.
	Cell func(R) any
	// Key is what rows are sorted by: an integer, a float, a bool or a text; nil: the cell.
	Key func(R) any
	// Full is shown instead of Cell where nothing may be shortened; nil: the cell.
	Full func(R) any
	// Since is, instead of Cell, a time in RFC 3339 of which the age is shown. An age is no change of the row.
	Since func(R) string
	// Wide columns are shown only where all are.
	Wide bool
}

// Selector is a flag that selects rows.
type Selector[R any] struct {
	Flag, Usage string
	Shorthand   string // of one letter; empty: none
	// Valid are the values that there are; nil: any text.
	Valid []string
	// Of are the values that a row has.
	Of func(R) []string
}

// Condition is a name for something that may hold of a row.
type Condition[R any] struct {
	Name  string
	Holds func(R) bool
}

// Conditions makes the selector --condition.
func Conditions[R any](all ...Condition[R]) Selector[R] {
	s := Selector[R]{Flag: "condition"}
	for _, c := range all {
		s.Valid = append(s.Valid, c.Name)
	}
	s.Of = func(r R) (names []string) {
		for _, c := range all {
			if c.Holds(r) {
				names = append(names, c.Name)
			}
		}
		return names
	}
	s.Usage = "only what is in this `condition`: " + strings.Join(s.Valid, ", ")
	return s
}

// View is how one caller wants to see a list. The zero View is all of it, as it came, with the columns that are needed most.
type View struct {
	// Wide shows all columns, and nothing shortened.
	Wide bool
	// SortBy are columns, the most important first; one with a dash before it is reversed.
	SortBy []string
	// Select has the values of each flag: a row must match each value. A value is one or more alternatives, separated by
	// commas.
	Select map[string][]string
	// Now is the time that ages are of; zero: the machine's.
	Now time.Time
}

// Flag is a flag that selects rows.
type Flag struct {
	Name, Shorthand, Usage string
	Valid                  []string // nil: any text
}

// Lister is a List of some answer.
type Lister interface {
	// Flags are the flags that select rows.
	Flags() []Flag
	// ColumnNames are the names that SortBy takes.
	ColumnNames() []string
	// Check returns an error for a column, a flag or a value that there is not; it names those that there are.
	Check(View) error
	// Table writes an answer as a table whose cells are separated by tabs.
	Table(w Writer, answer proto.Message, v View)
	// Arrange leaves in the answer what the view selects, in the view's order.
	Arrange(answer proto.Message, v View)
	// Shown are the rows that a table shows, or the items that the answer has, for one who watches them.
	Header(v View) []string
	RowsOf(answer proto.Message, v View) []Row
	ItemsOf(answer proto.Message, v View) []Item
}

// Writer is where a table is written to.
type Writer interface{ Write([]byte) (int, error) }

// Row is one row of a table.
type Row struct {
	ID    string
	Cells []string
	// Below are the lines below the row, each without a line break.
	Below []string
	// Fixed are the cells that do not change by time alone: two rows that have the same are the same.
	Fixed string
}

// Item is one item of an answer.
type Item struct {
	ID string
	// Field is the field of the answer that it is in, where there are several; empty: there is one.
	Field   string
	Message proto.Message
}

// Name is the name by which a column is sorted.
func (c *Column[R]) name() string { return strings.ReplaceAll(strings.ToLower(c.Name), " ", "-") }
