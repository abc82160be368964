#pragma once

#include <string>
#include <variant>
#include <vector>

#include "labelshift/report/dot_plot.hpp"
#include "labelshift/report/line_plot.hpp"
#include "labelshift/report/table.hpp"

namespace labelshift {

// A report as values: what is said, in which order, and nothing of how it looks. page_html() alone knows that.

/// The name of a section.
struct Heading {
  std::string text;
};

struct Paragraph {
  std::string text;
};

/// How good the news is.
enum class Tone { kGood, kDoubtful, kBad, kNeutral };

/// What a reader should know who reads nothing else.
struct Banner {
  Tone tone = Tone::kNeutral;
  std::string text;
};

/// Things of one kind that are said below each other.
struct List {
  std::vector<std::string> items;
};

/// What is read with its line ends, such as a settings file.
struct Verbatim {
  std::string text;
};

struct Fact {
  std::string name, value;
};
struct Facts {
  std::vector<Fact> facts;
};

/// A picture with what it was drawn from.
struct Chart {
  std::string title;
  std::string text;  // what the marks mean
  std::string svg;
  Table data;
};

/// Its title, its text and its data go with the page; the picture has the rest.
Chart chart_of(DotPlot plot);
/// A chart for each panel, which all have one legend.
std::vector<Chart> charts_of(const LinePlot& plot);

/// Charts that stand side by side where there is room.
struct Charts {
  std::vector<Chart> charts;
};

struct Block;

/// What a reader opens who wants to know it.
struct Folded {
  std::string summary;
  std::vector<Block> blocks;
};

struct Block {
  std::variant<Heading, Paragraph, Banner, List, Verbatim, Facts, Table, Charts, Folded> value;
};

struct Page {
  std::string title;
  std::string subtitle;
  std::vector<Block> blocks;

  void add(Block block) { blocks.push_back(std::move(block)); }
};

/// One HTML file that needs no other and no network: light and dark as the reader's system is, as wide as the window,
/// fit for print, and readable without scripts. A small script shows a mark's tooltip at once. Every text is escaped,
/// and the file allows no script and no request but its own.
std::string page_html(const Page& page);

/// What a figure was drawn from, a row for each mark.
Table figure_data(const DotPlot& plot);
Table figure_data(const LinePlot& plot);

}  // namespace labelshift
