package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/listing"
)

// Document writes a streamed answer without buffering it: the header's fields, then lists under their
// names. As a table, each item is a line.
type Document struct {
	w           io.Writer
	format      string
	lists       []string // lists that are not open yet
	currentList string   // the open list
	items       int      // written to the open list
}

// NewDocument begins a document with its header. All lists are written in the given order, empty ones
// too; items must be written in the same order.
func NewDocument(w io.Writer, format string, header proto.Message, lists ...string) (*Document, error) {
	if format == "wide" { // a stream's lines have everything that a table of them can have
		format = "table"
	}
	d := &Document{w: w, format: format, lists: lists}
	switch format {
	case "table":
		return d, printTable(w, header, listing.View{})
	case "yaml":
		return d, printYAML(w, header)
	}
	text, err := json.Marshal(orderedMessage{header})
	if err != nil {
		return nil, err
	}
	_, err = w.Write(bytes.TrimSuffix(text, []byte("}")))
	return d, err
}

// Item writes one item of a list.
func (d *Document) Item(list string, item proto.Message) error {
	if err := d.begin(list); err != nil {
		return err
	}
	d.items++
	switch d.format {
	case "table":
		return printTable(d.w, item, listing.View{})
	case "yaml":
		return d.yamlItem(item)
	}
	text, err := json.Marshal(orderedMessage{item})
	if err != nil {
		return err
	}
	comma := ","
	if d.items == 1 {
		comma = ""
	}
	_, err = fmt.Fprintf(d.w, "%s\n  %s", comma, text)
	return err
}

// End writes the remaining lists as empty ones, and closes the document.
func (d *Document) End() error {
	for len(d.lists) > 0 {
		if err := d.openNext(); err != nil {
			return err
		}
	}
	if err := d.close(); err != nil || d.format != "json" {
		return err
	}
	_, err := io.WriteString(d.w, "}\n")
	return err
}

// begin opens lists until the one named is open.
func (d *Document) begin(list string) error {
	for d.currentList != list {
		if len(d.lists) == 0 {
			return fmt.Errorf("print %s: the document has no such list here", list)
		}
		if err := d.openNext(); err != nil {
			return err
		}
	}
	return nil
}

// openNext closes the open list and opens the one after it.
func (d *Document) openNext() error {
	if err := d.close(); err != nil {
		return err
	}
	d.currentList, d.lists, d.items = d.lists[0], d.lists[1:], 0
	return d.head()
}

func (d *Document) head() (err error) {
	switch d.format {
	case "json":
		_, err = fmt.Fprintf(d.w, ",\n%q:[", d.currentList)
	case "yaml":
		_, err = fmt.Fprintf(d.w, "%s:", d.currentList)
	}
	return err
}

func (d *Document) close() (err error) {
	switch {
	case d.currentList == "":
	case d.format == "json":
		_, err = io.WriteString(d.w, "]")
	case d.format == "yaml" && d.items == 0:
		_, err = io.WriteString(d.w, " []\n")
	}
	d.currentList = ""
	return err
}

func (d *Document) yamlItem(item proto.Message) error {
	var text bytes.Buffer
	if err := printYAML(&text, item); err != nil {
		return err
	}
	lines := strings.ReplaceAll(strings.TrimRight(text.String(), "\n"), "\n", "\n    ")
	first := ""
	if d.items == 1 {
		first = "\n"
	}
	_, err := fmt.Fprintf(d.w, "%s  - %s\n", first, lines)
	return err
}
