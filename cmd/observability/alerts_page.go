package observability

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// alertParts are what each section says, in this order.
var alertParts = []string{"**Means:** ", "**Users feel:** ", "**Type:** ", "**Over** "}

// CheckAlertsPage returns what is wrong with the page of alerts: each has a section that says all four things and whose
// commands are those of the page of commands.
func CheckAlertsPage(page string, alerts []Rule, commands map[string][]string) (problems []string) {
	sections := sectionsOf(page)
	for _, r := range alerts {
		text, found := sections[r.Alert]
		if !found {
			problems = append(problems, r.Alert+" has no section")
			continue
		}
		problems = append(problems, checkSection(r.Alert, text, commands)...)
		delete(sections, r.Alert)
	}
	for title := range sections {
		problems = append(problems, title+" is no alert")
	}
	slices.Sort(problems)
	return problems
}

func sectionsOf(page string) map[string]string {
	sections := map[string]string{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		sections[title] = text
	}
	return sections
}

func checkSection(title, text string, commands map[string][]string) (problems []string) {
	at := 0
	for _, part := range alertParts {
		found := strings.Index(text[at:], "\n"+part)
		if found < 0 && !(at == 0 && strings.HasPrefix(text, part)) {
			problems = append(problems, fmt.Sprintf("%s: %q is missing, or not in its place", title, strings.TrimSpace(part)))
			continue
		}
		at += max(0, found) + 1
	}
	typed := typedCommands(text)
	if len(typed) == 0 {
		problems = append(problems, title+": nothing is to be typed")
	}
	for _, line := range typed {
		if problem := checkCommand(line, commands); problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", title, line, problem))
		}
	}
	return problems
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// typedCommands are the lines of the section's blocks.
func typedCommands(text string) (lines []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	return lines
}

// checkCommand says what is wrong with a line; one of the system's own is not looked at.
func checkCommand(line string, commands map[string][]string) string {
	words := strings.Fields(line)
	if words[0] != "holdfast" {
		return ""
	}
	verb := []string{}
	for _, w := range words {
		if strings.ContainsAny(w, `-$"`) && !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(w) {
			break
		}
		verb = append(verb, w)
	}
	flags, known := commands[strings.Join(verb, " ")]
	if !known {
		return "there is no such command"
	}
	for _, w := range words[len(verb):] {
		if strings.HasPrefix(w, "--") && !slices.Contains(flags, w) {
			return "it has no flag " + w
		}
	}
	return ""
}

var flagRow = regexp.MustCompile("(?m)^\\| `(--[a-z0-9-]+)`")

// ParseCommands returns the commands that the page of commands lists, each with its flags.
func ParseCommands(page string) map[string][]string {
	flagsOf := func(text string) (flags []string) {
		for _, m := range flagRow.FindAllStringSubmatch(text, -1) {
			flags = append(flags, m[1])
		}
		return flags
	}
	commands, common := map[string][]string{}, []string(nil)
	for title, text := range sectionsOf(page) {
		if title == "Flags of the commands that ask a cluster" {
			common = flagsOf(text)
		}
	}
	for title, text := range sectionsOf(page) {
		words := strings.Fields(title)
		end := slices.IndexFunc(words, func(w string) bool { return strings.ToLower(w) != w || strings.HasPrefix(w, "[") })
		if end < 0 {
			end = len(words)
		}
		flags := flagsOf(text)
		if strings.Contains(text, "It asks a cluster.") {
			flags = append(flags, common...)
		}
		commands[strings.Join(words[:end], " ")] = flags
	}
	return commands
}
