// exporter: a document's tree is written as HTML, for each of its readers anew. exporter [repaired]
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

static bool repaired;

enum class Kind { Section, Table, Row, List, Item, Image, Code, Rule, Link, Strong, Emphasis, Text };

struct Node {
    virtual ~Node() = default;
    virtual Kind kind() const = 0;
};
struct Block : Node {
    std::vector<std::unique_ptr<Node>> children;
};
struct Inline : Node {
    std::string text;
};
template <class Base, Kind K> struct Of : Base {
    Kind kind() const override { return K; }
};
struct Section : Of<Block, Kind::Section> {};
struct Table : Of<Block, Kind::Table> {};
struct Row : Of<Block, Kind::Row> {};
struct List : Of<Block, Kind::List> {};
struct Item : Of<Block, Kind::Item> {};
struct Image : Of<Inline, Kind::Image> {};
struct Code : Of<Inline, Kind::Code> {};
struct Rule : Of<Inline, Kind::Rule> {};
struct Link : Of<Inline, Kind::Link> {};
struct Strong : Of<Inline, Kind::Strong> {};
struct Emphasis : Of<Inline, Kind::Emphasis> {};
struct Text : Of<Inline, Kind::Text> {};

static void escape(std::string &out, const std::string &text)
{
    for (char c : text)
        switch (c) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        default: out += c;
        }
}

static Kind kind_of(const Node &n)
{
    if (repaired)
        return n.kind();
    if (dynamic_cast<const Section *>(&n)) return Kind::Section;
    if (dynamic_cast<const Table *>(&n)) return Kind::Table;
    if (dynamic_cast<const Row *>(&n)) return Kind::Row;
    if (dynamic_cast<const List *>(&n)) return Kind::List;
    if (dynamic_cast<const Item *>(&n)) return Kind::Item;
    if (dynamic_cast<const Image *>(&n)) return Kind::Image;
    if (dynamic_cast<const Code *>(&n)) return Kind::Code;
    if (dynamic_cast<const Rule *>(&n)) return Kind::Rule;
    if (dynamic_cast<const Link *>(&n)) return Kind::Link;
    if (dynamic_cast<const Strong *>(&n)) return Kind::Strong;
    if (dynamic_cast<const Emphasis *>(&n)) return Kind::Emphasis;
    return Kind::Text;
}

static void put_block(std::string &out, const Block &b, const char *tag);

static void put_inline(std::string &out, const Inline &i, const char *tag)
{
    ((out += '<') += tag) += '>';
    escape(out, i.text);
    ((out += "</") += tag) += '>';
}

static void put(std::string &out, const Node &n)
{
    switch (kind_of(n)) {
    case Kind::Section: return put_block(out, static_cast<const Block &>(n), "section");
    case Kind::Table: return put_block(out, static_cast<const Block &>(n), "table");
    case Kind::Row: return put_block(out, static_cast<const Block &>(n), "tr");
    case Kind::List: return put_block(out, static_cast<const Block &>(n), "ul");
    case Kind::Item: return put_block(out, static_cast<const Block &>(n), "li");
    case Kind::Image: return put_inline(out, static_cast<const Inline &>(n), "img");
    case Kind::Code: return put_inline(out, static_cast<const Inline &>(n), "code");
    case Kind::Rule: out += "<hr>"; return;
    case Kind::Link: return put_inline(out, static_cast<const Inline &>(n), "a");
    case Kind::Strong: return put_inline(out, static_cast<const Inline &>(n), "strong");
    case Kind::Emphasis: return put_inline(out, static_cast<const Inline &>(n), "em");
    case Kind::Text: escape(out, static_cast<const Inline &>(n).text);
    }
}

static void put_block(std::string &out, const Block &b, const char *tag)
{
    ((out += '<') += tag) += '>';
    for (const auto &child : b.children)
        put(out, *child);
    ((out += "</") += tag) += '>';
}

static uint32_t seed = 7;
static uint32_t next(uint32_t n) { return (seed = seed * 1664525u + 1013904223u) / 65536 % n; }

template <class T> static std::unique_ptr<Node> leaf()
{
    static const char *words[] = {"a < b ", "prices & terms ", "see below ", "as usual ", "figure "};
    auto n = std::make_unique<T>();
    for (uint32_t k = 1 + next(2); k; k--)
        n->text += words[next(5)];
    return n;
}

static std::unique_ptr<Node> tree(int depth)
{
    if (depth == 0)
        switch (next(12)) {
        case 0: return leaf<Link>();
        case 1: return leaf<Strong>();
        case 2: return leaf<Emphasis>();
        case 3: return leaf<Code>();
        default: return leaf<Text>();
        }
    std::unique_ptr<Block> b;
    if (depth % 2) b = std::make_unique<Item>();
    else b = std::make_unique<List>();
    for (int k = 0; k < 9; k++)
        b->children.push_back(tree(depth - 1));
    return b;
}

static uint32_t etag(const std::string &page)
{
    uint32_t h = 2166136261u;
    for (unsigned char c : page)
        h = (h ^ c) * 16777619u;
    return h;
}

int main(int argc, char **argv)
{
    repaired = argc > 1 && !strcmp(argv[1], "repaired");
    Section document;
    for (int k = 0; k < 4; k++)
        document.children.push_back(tree(4));
    uint32_t tags = 0;
    size_t bytes = 0;
    for (int reader = 0; reader < 200; reader++) {
        std::string page = "<p>Reader " + std::to_string(reader) + "</p>";
        put(page, document);
        tags ^= etag(page);
        bytes += page.size();
    }
    std::printf("%zu bytes, %08x\n", bytes, tags);
}
