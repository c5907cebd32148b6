package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// placeholder stands for secrets in the examples of deploy/.
const placeholder = "CHANGE-ME"

// validate checks every value by itself and then those that belong together.
func (l *loader) validate() error {
	for _, k := range l.keys {
		if err := k.check(); err != nil {
			return l.origins[k.path].fail(k.path, err)
		}
	}
	for _, r := range l.config.rules() {
		if r.broken {
			return l.blame(r.keys).fail("", errors.New(r.problem))
		}
	}
	return nil
}

// blame is the source of the first of the keys that was set at all.
func (l *loader) blame(keys []string) origin {
	for _, path := range keys {
		if from, ok := l.origins[path]; ok {
			return from
		}
	}
	return origin{where: "configuration"}
}

// check holds the value against the tags of its field.
func (k configKey) check() error {
	if text, ok := k.value.Interface().(string); ok && text == "" {
		return k.checkEmpty()
	}
	if err := k.checkRange(); err != nil {
		return err
	}
	for _, text := range k.texts() {
		if err := k.checkText(text); err != nil {
			return err
		}
	}
	return nil
}

func (k configKey) checkEmpty() error {
	if k.std == "" {
		return nil
	}
	return fmt.Errorf("is empty: set it, the default is %s", k.std)
}

func (k configKey) checkRange() error {
	low, high, ok := strings.Cut(k.tag.Get("range"), "..")
	if !ok {
		return nil
	}
	ends, open := "", k.tag.Get("open") == "true"
	if open {
		ends = " (ends excluded)"
	}
	for _, text := range k.numbers() {
		inside, err := k.within(text, low, high, open)
		if err != nil {
			return err
		}
		if !inside {
			return fmt.Errorf("%s is not in %s…%s%s: choose a value in this range%s", text, low, high, ends, k.advice())
		}
	}
	return nil
}

// advice ends a message with the default when there is one worth naming.
func (k configKey) advice() string {
	if k.many() {
		return ""
	}
	return ", the default is " + k.std
}

// within compares in the unit of the key; NaN is nowhere within.
func (k configKey) within(text, low, high string, open bool) (bool, error) {
	var n [3]float64
	for i, s := range []string{text, low, high} {
		v, err := k.number(s)
		if err != nil {
			return false, err
		}
		n[i] = v
	}
	if open {
		return n[1] < n[0] && n[0] < n[2], nil
	}
	return n[1] <= n[0] && n[0] <= n[2], nil
}

func (k configKey) number(text string) (float64, error) {
	switch k.value.Interface().(type) {
	case time.Duration, Interval:
		d, err := time.ParseDuration(text)
		return float64(d), err
	default:
		return strconv.ParseFloat(text, 64)
	}
}

func (k configKey) checkText(text string) error {
	if choices := strings.Fields(k.tag.Get("oneof")); len(choices) > 0 && !slices.Contains(choices, text) {
		return fmt.Errorf("%s is not one of %s: choose one, the default is %s", show(text), strings.Join(choices, ", "), k.std)
	}
	if k.secret() && strings.Contains(text, placeholder) {
		return errors.New("the value still holds " + placeholder + " of the example: write your own secret")
	}
	problem := ""
	switch k.tag.Get("format") {
	case "listen":
		problem = checkListen(text)
	case "hostport":
		problem = checkHostPort(text)
	case "ipport":
		problem = checkIPPort(text)
	case "name":
		problem = checkName(text)
	case "cron":
		problem = checkCron(text)
	case "zone":
		problem = checkZone(text)
	case "token":
		problem = checkToken(text)
	case "url":
		problem = checkURL(text)
	}
	if problem == "" {
		return nil
	}
	if k.secret() {
		return errors.New("the value " + problem)
	}
	return fmt.Errorf("%s %s", show(text), problem)
}
