package pagetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Block is one block of code of a page.
type Block struct {
	Page     string // its file's name
	Line     int    // of its first line of text, from 1
	Language string // what its fence says; sh where a block is indented
	Text     string
	Values   string // the block of chart values before it on the page, if there is one
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

// Blocks are those of a page in their order: fenced ones, and ones that are indented by four spaces below an empty line.
func Blocks(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := reader{page: filepath.Base(path)}
	for i, line := range strings.Split(string(text), "\n") {
		r.read(i+1, line)
	}
	if r.fence != "" {
		return nil, fmt.Errorf("%s: the block of line %d has no end", r.page, r.block.Line)
	}
	r.end()
	values := ""
	for i := range r.blocks {
		r.blocks[i].Values = values
		if r.blocks[i].Language == "yaml" && !isManifest(r.blocks[i].Text) {
			values = r.blocks[i].Text
		}
	}
	return r.blocks, nil
}

type reader struct {
	page     string
	blocks   []Block
	block    *Block
	fence    string // what a line must be to end the block
	indented string // what is before each of its lines
	empty    bool   // the line before is
}

func (r *reader) read(number int, line string) {
	trimmed := strings.TrimSpace(line)
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	switch {
	case r.fence != "" && trimmed == r.fence:
		r.fence = ""
		r.end()
	case r.fence != "":
		r.block.Text += strings.TrimPrefix(line, r.indented) + "\n"
	case strings.HasPrefix(trimmed, "```"):
		r.end()
		r.fence, r.indented = "```", indent
		r.block = &Block{Page: r.page, Line: number + 1, Language: strings.TrimPrefix(trimmed, "```")}
	case len(indent) >= 4 && (r.block != nil || r.empty):
		if r.block == nil {
			r.block = &Block{Page: r.page, Line: number, Language: "sh"}
		}
		r.block.Text += line[4:] + "\n"
	case trimmed != "":
		r.end()
	}
	r.empty = trimmed == ""
}

func (r *reader) end() {
	if r.block != nil {
		r.blocks = append(r.blocks, *r.block)
	}
	r.block = nil
}
