package runbooks

import (
	"fmt"
	"os"
	"strings"
)

// Runbook is one section of the page.
type Runbook struct {
	Title  string
	Blocks []Block // in their order
}

// Block is what is typed into a shell at once.
type Block struct {
	Line int // of the page, from 1
	Text string
}

// Read reads the page. It fails where a command is shown in another way than in a block of sh, since no test would run it.
func Read(path string) ([]Runbook, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(string(text))
}

// Parse is Read of a text.
func Parse(text string) ([]Runbook, error) {
	var p parser
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(i+1, line); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if p.block != nil {
		return nil, fmt.Errorf("line %d: the block does not end", p.block.Line)
	}
	return p.books, nil
}

type parser struct {
	books []Runbook
	block *Block // that is open
}

func (p *parser) line(number int, line string) error {
	title, heading := strings.CutPrefix(line, "## ")
	switch {
	case p.block != nil:
		p.inside(line)
	case heading:
		p.books = append(p.books, Runbook{Title: title})
	case line == "```sh" && len(p.books) > 0:
		p.block = &Block{Line: number}
	case strings.HasPrefix(strings.TrimSpace(line), "```"), strings.HasPrefix(line, "    "), strings.HasPrefix(line, "\t"):
		return fmt.Errorf("%q shows commands that no test runs: write them in a block of sh, in a section", line)
	}
	return nil
}

func (p *parser) inside(line string) {
	if line != "```" {
		p.block.Text += line + "\n"
		return
	}
	last := &p.books[len(p.books)-1]
	last.Blocks, p.block = append(last.Blocks, *p.block), nil
}
