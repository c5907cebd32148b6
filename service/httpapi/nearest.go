package httpapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// documented are the paths of openapi.yaml; a parameter is in braces.
var documented = sync.OnceValue(func() (paths []string) {
	for _, found := range regexp.MustCompile(`(?m)^  (/\S+):$`).FindAllStringSubmatch(openAPI, -1) {
		paths = append(paths, found[1])
	}
	return paths
})

// nearestPath is the documented path that is most like one that does not exist: fewer bytes
// differ than half of it has beside parameters. "" when none is, and when it has the form of
// a documented one.
func nearestPath(path string) (nearest string) {
	const longest = 64 // comparing takes time
	if len(path) > longest {
		return ""
	}
	given, fewest := strings.Split(path, "/"), len(path)
	for _, candidate := range documented() {
		parts := strings.Split(candidate, "/")
		most := (len(parameter.ReplaceAllString(candidate, "")) + 1) / 2
		for _, shift := range []int{0, len(given) - len(parts)} { // something is missing at the end, or before
			filled := slices.Clone(parts)
			for i, part := range parts {
				if at := i + shift; parameter.MatchString(part) && 0 < at && at < len(given) && given[at] != "" {
					filled[i] = given[at]
				}
			}
			text := strings.Join(filled, "/")
			if apart := max(len(path)-len(text), len(text)-len(path)); apart >= min(most, fewest) {
				continue
			}
			switch d := distance(path, text); {
			case d == 0:
				return ""
			case d < min(most, fewest):
				fewest, nearest = d, candidate
			}
		}
	}
	return nearest
}

// unknownName says that there is no parameter or field of this name, and which one is most like
// it.
func unknownName(kind, name string, known []string) string {
	apart := func(a string) int { return distance(strings.ToLower(cut(name, maxShown)), strings.ToLower(a)) }
	near := slices.MinFunc(known, func(a, b string) int { return apart(a) - apart(b) })
	return fmt.Sprintf("unknown %s %s, the nearest is %s: there are %s", kind, quote(name), near, strings.Join(known, ", "))
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// distance is how many bytes to add, leave out or replace make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
