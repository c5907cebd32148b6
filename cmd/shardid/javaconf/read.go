package javaconf

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"shardid/service/yamlfile"

	"github.com/magiconair/properties"
	"go.yaml.in/yaml/v3"
)

// readProperties reads a file of Java properties.
func readProperties(data []byte) ([]setting, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(data)
	if err != nil {
		return nil, fmt.Errorf("it cannot be read as properties: %w", ErrUnknown) // the parser's words may quote a value
	}
	var all []setting
	for _, key := range p.Keys() {
		if value, _ := p.Get(key); !strings.HasPrefix(key, "//") { // a comment of the fork's instructions
			all = append(all, setting{key: key, value: value})
		}
	}
	return all, nil
}

// readYAML reads a file of YAML: a.b for b below a, and the items of a list with commas.
func readYAML(data []byte) ([]setting, error) {
	root, err := yamlfile.Parse("line", data)
	if err != nil {
		return nil, err
	}
	var all []setting
	if root != nil {
		flatten(&all, "", root, 0)
	}
	return all, nil
}

// deepest is how deep keys of Spring are nested, with room to spare.
const deepest = 20

func flatten(all *[]setting, path string, node *yaml.Node, depth int) {
	var items []string
	switch {
	case depth > deepest:
	case !yamlfile.Plain(node):
		*all = append(*all, setting{key: path + ", an anchor, alias or tag"})
	case node.Kind == yaml.ScalarNode && node.ShortTag() != "!!null":
		*all = append(*all, setting{key: path, value: node.Value})
	case node.Kind == yaml.MappingNode:
		for pair := range slices.Chunk(node.Content, 2) {
			flatten(all, strings.TrimPrefix(path+"."+pair[0].Value, "."), pair[1], depth+1)
		}
	case node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			items = append(items, yamlfile.Text(item))
		}
		*all = append(*all, setting{key: path, value: strings.Join(items, ",")})
	}
}

// bean is one of Spring's XML.
type bean struct {
	ID         string     `xml:"id,attr"`
	Class      string     `xml:"class,attr"`
	Attributes []xml.Attr `xml:",any,attr"`
	Properties []struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
		Ref   string `xml:"ref,attr"`
		Text  string `xml:"value"`
	} `xml:"property"`
}

// The key of the generator's class, and what the class of the bean begins with that another
// one refers to.
const (
	generatorClass = "class"
	beanClass      = "class of the bean "
)

// readXML reads Spring's XML: the properties of the generator, those of other beans by their
// names, and the classes of all.
func readXML(data []byte) ([]setting, error) {
	var file struct {
		Beans []bean `xml:"bean"`
	}
	if err := xml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("it cannot be read as XML: %w", ErrUnknown)
	}
	var all []setting
	generator := slices.IndexFunc(file.Beans, func(b bean) bool { return strings.HasSuffix(b.Class, "UidGenerator") })
	for i, b := range file.Beans {
		prefix := b.ID + "."
		if i == generator {
			prefix = ""
			all = append(all, setting{key: generatorClass, value: b.Class})
		} else {
			all = append(all, setting{key: beanClass + b.ID, value: b.Class})
		}
		for _, p := range b.Properties {
			value := p.Value + p.Text
			if value == "" {
				value = p.Ref
			}
			all = append(all, setting{key: prefix + p.Name, value: value})
		}
		for _, a := range b.Attributes {
			if strings.HasSuffix(a.Name.Space, "/schema/p") {
				all = append(all, setting{key: prefix + strings.TrimSuffix(a.Name.Local, "-ref"), value: a.Value})
			}
		}
	}
	return all, nil
}
